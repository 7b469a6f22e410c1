/* The named channel: submit, list, mismatch, cancel, leave.  docs/protocol.md has the rules, README.md says how to read this.
 *
 *   Rank 0..N-1  --- up[k]: SUBMIT, CANCEL, LEAVE ------------------>  Root (the coordinator of rank 0)
 *                <-- down[k]: LISTED, MISMATCH, CANCELLED, LEFT ----
 *
 * Each rank submits REQUESTS operations under the names A and B, in any order, a name again only after its answer. It may
 * cancel whatever is pending, say a wrong signature, or leave, at any time. Then every rank submits F, correctly, and F must
 * work unless somebody has left. */

#ifndef N
#define N 2
#endif
#ifndef REQUESTS
#define REQUESTS 3
#endif
#ifndef WRONG
#define WRONG 1 /* how many wrong signatures there may be in the job */
#endif
#define NAMES 3 /* A, B, and the last one, F */
#define F 2
#define WINDOW 4

mtype = { SUBMIT, CANCEL, LEAVE, LISTED, MISMATCH, CANCELLED, LEFT };

typedef Step { /* the n-th entry of the agreed sequence: what the first rank to reach it says it is */
  byte what;
  byte reached;
  byte passed
};

Step step[WINDOW];
byte wrong = WRONG;
bit somebody_left;

chan up[N] = [4] of { mtype, byte, bit };    /* name, signature */
chan down[N] = [6] of { mtype, byte, byte }; /* name, sequence number */

#define POSITION step[next % WINDOW]

/* The agreement property: entry n is the same on all ranks. */
inline reach(executes) {
  assert(pending[name] && (executes || name != F)); /* one answer to each submission, and F is no error */
  assert(number == next);
  assert(POSITION.reached < N);
  if
  :: POSITION.reached == 0 -> POSITION.what = 1 + 2 * name + executes
  :: else -> assert(POSITION.what == 1 + 2 * name + executes)
  fi;
  POSITION.reached++
}

/* The last to pass an entry clears the record of it. */
inline pass() {
  pending[name] = 0;
  cancelling[name] = 0;
  POSITION.passed++;
  if
  :: POSITION.passed == N -> POSITION.passed = 0; POSITION.reached = 0; POSITION.what = 0
  :: else
  fi;
  next = (next + 1) % (2 * WINDOW);
  number = 0
}

proctype Rank(byte me) {
  byte submitted, next, name, number, choice;
  bit pending[NAMES], cancelling[NAMES], leaving, final, signature;

  do
  :: atomic {
      submitted < REQUESTS && !leaving && !(pending[0] && pending[1]) ->
      if
      :: !pending[0] -> choice = 0
      :: !pending[1] -> choice = 1
      fi;
      if
      :: signature = 0
      :: wrong > 0 -> wrong--; signature = 1
      fi;
      pending[choice] = 1;
      submitted++;
      up[me]!SUBMIT, choice, signature;
      choice = 0; signature = 0
    }
  :: atomic {
      submitted == REQUESTS && !leaving && !final && !pending[0] && !pending[1] ->
      final = 1;
      pending[F] = 1;
      up[me]!SUBMIT, F, 0
    }
  :: atomic { /* the deadline of a pending operation has passed */
      if
      :: pending[0] && !cancelling[0] -> choice = 0
      :: pending[1] && !cancelling[1] -> choice = 1
      fi;
      cancelling[choice] = 1;
      up[me]!CANCEL, choice, 0;
#ifdef MUTATE_CANCEL_ALONE
      pending[choice] = 0; /* and do not wait for the answer */
      cancelling[choice] = 0;
#endif
      choice = 0
    }
  :: atomic {
      !somebody_left && !leaving && !final ->
      leaving = 1; somebody_left = 1;
      up[me]!LEAVE, 0, 0;
#ifdef MUTATE_LEAVE_ALONE
      pending[0] = 0; pending[1] = 0; /* and do not take part in what is listed meanwhile */
      break
#endif
    }
  :: atomic { down[me]?LISTED, name, number -> reach(1) };
    atomic {
      POSITION.reached == N -> /* the exchange of data: nobody gets past it before all are in it */
      pass();
      if
      :: name == F -> break
      :: else -> name = 0
      fi
    }
  :: atomic { down[me]?MISMATCH, name, number -> reach(0); pass(); name = 0 }
  :: atomic {
      down[me]?CANCELLED, name, _ ->
      assert(pending[name] && name != F);
      pending[name] = 0; cancelling[name] = 0; name = 0
    }
  :: atomic {
#ifdef MUTATE_LEAVE_OVERTAKES
      down[me]??LEFT, _, _ ->
#else
      down[me]?LEFT, _, _ ->
#endif
      /* everything pending is an error, and so is whatever would be submitted later */
      assert(somebody_left);
      pending[0] = 0; pending[1] = 0; pending[F] = 0;
      break
    }
  od;
  assert(!pending[0] && !pending[1] && !pending[F]) /* no request is lost */
}

#define TELL(message, whom) \
  k = 0; \
  do \
  :: k < N && (whom & (1 << k)) -> down[k]!message, name, number; k++ \
  :: k < N && !(whom & (1 << k)) -> k++ \
  :: k == N -> k = 0; break \
  od

#define ALL_RANKS ((1 << N) - 1)

inline submit(from) {
  submitted[name] = submitted[name] | (1 << from);
  differs[name] = differs[name] | signature;
  if
  :: submitted[name] == ALL_RANKS ->
    if
    :: differs[name] -> TELL(MISMATCH, ALL_RANKS)
    :: else -> TELL(LISTED, ALL_RANKS)
    fi;
    submitted[name] = 0;
    differs[name] = 0;
    number = (number + 1) % (2 * WINDOW)
  :: else
  fi;
  name = 0; signature = 0
}

/* A cancel that crossed with an answer finds nothing pending: that answer is the answer to it. */
inline cancel(from) {
  if
#ifdef MUTATE_CANCEL_STALE
  :: true -> /* answer in any case */
    TELL(CANCELLED, (submitted[name] | (1 << from)));
#else
  :: submitted[name] & (1 << from) ->
    TELL(CANCELLED, submitted[name]);
#endif
#ifndef MUTATE_CANCEL_KEEPS
    submitted[name] = 0;
    differs[name] = 0
#endif
  :: else
  fi;
  name = 0; signature = 0
}

proctype Root() {
  byte submitted[NAMES], name, number, k;
  bit differs[NAMES], signature;

end:
  do
  :: atomic { up[0]?SUBMIT, name, signature -> submit(0) }
  :: atomic { up[1]?SUBMIT, name, signature -> submit(1) }
  :: atomic { up[0]?CANCEL, name, signature -> cancel(0) }
  :: atomic { up[1]?CANCEL, name, signature -> cancel(1) }
  :: atomic { up[0]?LEAVE, _, _ -> TELL(LEFT, ALL_RANKS); break }
  :: atomic { up[1]?LEAVE, _, _ -> TELL(LEFT, ALL_RANKS); break }
#if N > 2
  :: atomic { up[2]?SUBMIT, name, signature -> submit(2) }
  :: atomic { up[2]?CANCEL, name, signature -> cancel(2) }
  :: atomic { up[2]?LEAVE, _, _ -> TELL(LEFT, ALL_RANKS); break }
#endif
  od;
end_left: /* what was sent before the farewell was read: its senders have LEFT for an answer */
  do
  :: up[0]?_, _, _
  :: up[1]?_, _, _
#if N > 2
  :: up[2]?_, _, _
#endif
  od
}

init {
  byte k;
  atomic {
    run Root();
    do
    :: k < N -> run Rank(k); k++
    :: else -> break
    od
  }
}
