// A browser starts no Worker for a page that was opened as a file. There, the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.receive = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      frame.srcdoc = `<script>postMessage = (data) => frameElement.receive(data)</script><script src="${url}"></script>`;
      this.loaded = new Promise((resolve) => { frame.onload = () => resolve(frame.contentWindow); });
      document.body.append(frame);
    }
    postMessage(data) {
      this.loaded.then((worker) => worker.dispatchEvent(new worker.MessageEvent("message", { data })));
    }
  };
}
