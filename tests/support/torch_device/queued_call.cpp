#include "support/torch_device/queued_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <utility>

#include "support/torch_device/backend.h"

namespace kolo::test {
namespace {

using Values = std::vector<c10::IValue>;
using Replace = std::function<at::Tensor(const at::Tensor&)>;

// How many elements lie between the first one and the end of the last one.
std::int64_t extent(const at::Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return 0;
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return last + 1;
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  std::vector<at::Tensor> found;
  if (value.isOptionalTensorList()) {
    for (const auto& each : value.toOptionalTensorVector()) found.push_back(each.value_or(at::Tensor()));
  }
  return found;
}

// The value with its tensors replaced; undefined ones stay. Where a device is named it is the host.
c10::IValue replaced(const c10::IValue& value, const Replace& replace) {
  const auto one = [&](const at::Tensor& tensor) { return tensor.defined() ? replace(tensor) : tensor; };
  if (value.isTensor()) return one(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : tensors_in(value)) list.push_back(one(each));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const at::Tensor& each : tensors_in(value)) {
      list.push_back(each.defined() ? std::optional(replace(each)) : std::nullopt);
    }
    return list;
  }
  return value;
}

Values replaced(const Values& values, const Replace& replace) {
  Values all;
  for (const auto& value : values) all.push_back(replaced(value, replace));
  return all;
}

// Numbers are taken when the call is made, as a device's kernel takes its arguments.
at::Tensor taken(const at::Tensor& host) {
  return host.unsafeGetTensorImpl()->is_wrapped_number() ? host : host.clone();
}

// Of the same form, and zero: to find out what an operator returns, and whether it takes what it is given.
at::Tensor zeros_like(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return taken(tensor);
  const auto options = tensor.options().device(c10::kCPU);
  return at::zeros({extent(tensor)}, options).as_strided(tensor.sizes(), tensor.strides());
}

at::Tensor argument_on_host(const at::Tensor& tensor) { return tensor.is_cpu() ? taken(tensor) : on_host(tensor); }

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

void refuse_if_not_simulated(const c10::OperatorHandle& op) {
  const bool of_data = op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  TORCH_CHECK(!of_data, "the simulated device has no ", op.schema().name(), ": what it returns depends on values");
  TORCH_CHECK(!op.hasTag(at::Tag::nondeterministic_seeded), "the simulated device has no random numbers for ",
              op.schema().name());
  for (const c10::Argument& result : op.schema().returns()) {
    TORCH_CHECK(result.alias_info() == nullptr || writes(result), "the simulated device has no ", op.schema().name(),
                ": a view");
  }
}

c10::Device device_of(const Values& arguments, const c10::OperatorHandle& op) {
  for (const auto& argument : arguments) {
    for (const at::Tensor& tensor : tensors_in(argument)) {
      if (tensor.defined() && tensor.is_privateuseone()) return tensor.device();
    }
  }
  TORCH_CHECK(false, "the simulated device has no ", op.schema().name(), ": no argument is a tensor of a device");
}

void expect_same_sizes(const Values& arguments, const Values& after, const c10::OperatorHandle& op) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto before_call = tensors_in(arguments[i]);
    const auto after_call = tensors_in(after[i]);
    for (std::size_t j = 0; j < before_call.size(); ++j) {
      TORCH_CHECK(!before_call[j].defined() || before_call[j].sizes() == after_call[j].sizes(),
                  "the simulated device does not resize what ", op.schema().name(), " writes to");
    }
  }
}

// A returned tensor that is an argument, written in place: the n-th such result is the n-th such argument.
c10::IValue written_argument(const c10::FunctionSchema& schema, const Values& arguments, std::size_t number) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (writes(schema.arguments()[i]) && number-- == 0) return arguments[i];
  }
  TORCH_CHECK(false, schema.name(), " returns what it was not given");
}

struct Results {
  Values values;              // what the caller gets
  Values fresh;               // those that were made, on the host, or none where it is an argument
  std::vector<Range> ranges;  // of those that were made
};

Results make_results(const c10::FunctionSchema& schema, const Values& arguments, const Values& forms,
                     const c10::Device& device) {
  Results results;
  std::size_t written = 0;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (writes(schema.returns()[i])) {
      results.values.push_back(written_argument(schema, arguments, written++));
      results.fresh.emplace_back();
      continue;
    }
    TORCH_CHECK(forms[i].isTensor() || forms[i].isTensorList(), "the simulated device has no ", schema.name(),
                ": it returns a value");
    const auto make = [&](const at::Tensor& form) {
      return at::empty_strided(form.sizes(), form.strides(), form.options().device(device));
    };
    results.values.push_back(replaced(forms[i], make));
    results.fresh.push_back(replaced(results.values.back(), on_host));
    for (const at::Tensor& each : tensors_in(results.values.back())) {
      if (each.defined()) results.ranges.push_back(footprint(each, Access::write));
    }
  }
  return results;
}

void call(const c10::OperatorHandle& op, Values& stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  op.callBoxed(&stack);
}

// What an operator writes to, apart: kernels of the host shrink and grow it on their way, which memory of a device
// cannot. It is of the same sizes in the end (expect_same_sizes).
at::Tensor apart(const at::Tensor& memory) {
  at::Tensor own = at::empty_strided(memory.sizes(), memory.strides(), memory.options());
  return own.copy_(memory);
}

void move(const c10::IValue& from, const c10::IValue& to) {
  const auto source = tensors_in(from);
  const auto target = tensors_in(to);
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i].defined()) target[i].copy_(source[i]);
  }
}

// The operator on the device's memory: `arguments` and what is to be made, `fresh`, lie there.
std::function<void()> body(const c10::OperatorHandle& op, Values arguments, Values fresh) {
  return [op, arguments = std::move(arguments), fresh = std::move(fresh)] {
    Values given = arguments;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (writes(op.schema().arguments()[i])) given[i] = replaced(arguments[i], apart);
    }
    Values stack = given;
    op.callBoxed(&stack);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (writes(op.schema().arguments()[i])) move(given[i], arguments[i]);
    }
    for (std::size_t i = 0; i < fresh.size(); ++i) move(stack[i], fresh[i]);
  };
}

}  // namespace

at::Tensor on_host(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU));
}

Range footprint(const at::Tensor& tensor, Access access) {
  const auto bytes = static_cast<std::size_t>(extent(tensor)) * tensor.itemsize();
  return {bytes == 0 ? nullptr : tensor.const_data_ptr(), bytes, access};
}

void enqueue(const c10::Device& device, std::string what, std::vector<Range> ranges, std::function<void()> run) {
  const auto mine = backend();
  const OnDevice here(mine->api, device.index());
  Operation operation{.what = std::move(what), .ranges = std::move(ranges)};
  operation.run = [run = std::move(run)] {
    const at::AutoDispatchBelowADInplaceOrView below;
    run();
  };
  mine->device.enqueue(mine->streams.handle(mine->streams.current(device.index())), std::move(operation));
}

void queue_call(const c10::OperatorHandle& op, c10::Stack* stack) {
  refuse_if_not_simulated(op);
  const auto& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  const Values arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const c10::Device device = device_of(arguments, op);
  const c10::DeviceGuard guard(device);

  const Values forms = replaced(arguments, zeros_like);
  Values returned = forms;
  call(op, returned);
  expect_same_sizes(arguments, forms, op);
  Results results = make_results(schema, arguments, returned, device);

  std::vector<Range> ranges = std::move(results.ranges);
  for (std::size_t i = 0; i < count; ++i) {
    for (const at::Tensor& tensor : tensors_in(arguments[i])) {
      if (!tensor.defined() || !tensor.is_privateuseone()) continue;
      ranges.push_back(footprint(tensor, writes(schema.arguments()[i]) ? Access::write : Access::read));
    }
  }
  enqueue(device, schema.name(), std::move(ranges),
          body(op, replaced(arguments, argument_on_host), std::move(results.fresh)));
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  stack->insert(stack->end(), results.values.begin(), results.values.end());
}

}  // namespace kolo::test
