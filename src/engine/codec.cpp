#include "engine/codec.h"

#include <bit>
#include <concepts>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <string_view>
#include <type_traits>

#include "engine/message_check.h"

namespace kolo::engine {
namespace {

template <class Value, class... Messages>
concept Is = (std::same_as<std::remove_const_t<Value>, Messages> || ...);

// A message inside another one.
template <class Value>
concept Inner = Is<Value, Signature, Conflict, Entry, Item, FailedRound, Fatal, Report, Withdrawal>;

// An enumeration on the wire, with its largest value.
template <class Enum>
struct UpTo {
  Enum& value;
  std::remove_const_t<Enum> last;
};

// The fields of control.proto: calls `archive` with the number and value of each field, in ascending order.

void fields(auto& archive, Is<Signature> auto& message) {
  archive(1, UpTo{message.kind, Kind::gradient_round});
  archive(2, UpTo{message.dtype, DType::boolean});
  archive(3, message.sizes);
  archive(4, message.strides);
  archive(5, UpTo{message.op, ReduceOp::product});
  archive(6, message.prescale);
  archive(7, message.postscale);
  archive(8, message.root);
  archive(9, message.table);
}

void fields(auto& archive, Is<Conflict> auto& message) {
  archive(1, message.first);
  archive(2, message.first_rank);
  archive(3, message.second);
  archive(4, message.second_rank);
}

void fields(auto& archive, Is<Entry> auto& message) {
  archive(1, message.name);
  archive(2, message.signature);
  archive(3, message.rank);
  archive(4, message.conflict);
  archive(5, message.ranks);
  archive(6, message.bytes);
  archive(7, message.order);
  archive(8, message.failed_ranks);
  archive(9, message.failure);
  archive(10, message.beside);
}

void fields(auto& archive, Is<Item> auto& message) {
  archive(1, message.names);
  archive(2, message.conflict);
  archive(3, message.bytes);
  archive(4, message.order);
  archive(5, message.failed_ranks);
  archive(6, message.failure);
  archive(7, message.sequence);
  archive(8, message.beside);
}

void fields(auto& archive, Is<FailedRound> auto& message) {
  archive(1, message.reducer);
  archive(2, message.round);
}

void fields(auto& archive, Is<Fatal> auto& message) {
  archive(1, UpTo{message.kind, FatalKind::backend});
  archive(2, message.ranks);
  archive(3, message.text);
  archive(4, message.sequence);
  archive(5, message.rounds);
  archive(6, message.calls);
  archive(7, message.reducers);
  archive(8, message.answered);
  archive(9, message.after_failure);
  archive(10, message.heard);
  archive(11, message.failed_round);
}

void fields(auto& archive, Is<Report> auto& message) {
  archive(1, message.name);
  archive(2, message.missing);
  archive(3, message.cancel);
  archive(4, message.held_back);
}

void fields(auto& archive, Is<Withdrawal> auto& message) {
  archive(1, message.name);
  archive(2, message.missing);
}

void fields(auto& archive, Is<Envelope> auto& message) {
  archive(1, message.epoch);
  archive(2, message.entries);
  archive(3, message.items);
  archive(4, message.fatal);
  archive(5, message.failure);
  archive(6, message.depth);
  archive(7, message.reports);
  archive(8, message.withdrawal);
}

// Writes a message as proto3 does: a zero, an empty text and an empty list take no bytes.
class Writer {
 public:
  explicit Writer(std::string& bytes) : bytes_(bytes), out_(bytes) {}

  void operator()(protozero::pbf_tag_type tag, std::integral auto value) {
    if (value != 0) out_.add_uint64(tag, static_cast<std::uint64_t>(value));
  }
  template <class Enum>
  void operator()(protozero::pbf_tag_type tag, UpTo<Enum> number) {
    (*this)(tag, static_cast<std::uint32_t>(number.value));
  }
  void operator()(protozero::pbf_tag_type tag, double value) {
    if (std::bit_cast<std::uint64_t>(value) != 0) out_.add_double(tag, value);
  }
  void operator()(protozero::pbf_tag_type tag, const std::string& text) {
    if (!text.empty()) out_.add_bytes(tag, text);
  }
  void operator()(protozero::pbf_tag_type tag, const std::vector<std::string>& texts) {
    for (const auto& text : texts) out_.add_bytes(tag, text);
  }
  template <std::integral Number>
  void operator()(protozero::pbf_tag_type tag, const std::vector<Number>& numbers) {
    protozero::packed_field_uint64 list(out_, tag);
    for (const Number number : numbers) list.add_element(static_cast<std::uint64_t>(number));
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, const std::vector<Message>& messages) {
    for (const auto& message : messages) (*this)(tag, message);
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, const std::optional<Message>& message) {
    if (message) (*this)(tag, *message);
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, const Message& message) {
    const std::size_t before = bytes_.size();
    {
      Writer inner(bytes_, out_, tag);
      fields(inner, message);
    }
    if (bytes_.size() == before) out_.add_message(tag, std::string());  // protozero leaves an empty one out
  }

 private:
  Writer(std::string& bytes, protozero::pbf_writer& outer, protozero::pbf_tag_type tag)
      : bytes_(bytes), out_(outer, tag) {}

  std::string& bytes_;
  protozero::pbf_writer out_;
};

// Sets each field to its proto3 default (0 or empty), which may differ from the member's initializer.
struct Reset {
  template <class Field>
  void operator()(int, Field& field) const {
    if constexpr (requires { fields(*this, field); }) {
      fields(*this, field);
    } else {
      field = Field{};
    }
  }
  template <class Enum>
  void operator()(int, UpTo<Enum> number) const {
    number.value = Enum{};
  }
};

// Reads a message. Fields of other numbers or wire types are skipped. Throws protozero::exception.
class Reader {
 public:
  explicit Reader(protozero::data_view bytes) : in_(bytes) {}

  void read(auto& message) {
    const Reset reset;
    fields(reset, message);
    while (in_.next()) {
      is_read_ = false;
      fields(*this, message);
      if (!is_read_) in_.skip();
    }
  }

  template <std::integral Number>
  void operator()(protozero::pbf_tag_type tag, Number& value) {
    if (is_next(tag, protozero::pbf_wire_type::varint)) value = number<Number>(in_.get_uint64());
  }
  template <class Enum>
  void operator()(protozero::pbf_tag_type tag, UpTo<Enum> field) {
    if (!is_next(tag, protozero::pbf_wire_type::varint)) return;
    const std::uint32_t value = in_.get_uint32();
    if (value > static_cast<std::uint32_t>(field.last)) {
      throw DamagedMessage("malformed control message: unknown value " + std::to_string(value) +
                           ". Do all ranks run the same version of kolo?");
    }
    field.value = static_cast<Enum>(value);
  }
  void operator()(protozero::pbf_tag_type tag, double& value) {
    if (is_next(tag, protozero::pbf_wire_type::fixed64)) value = in_.get_double();
  }
  void operator()(protozero::pbf_tag_type tag, std::string& text) {
    if (is_next(tag, protozero::pbf_wire_type::length_delimited)) text = in_.get_bytes();
  }
  void operator()(protozero::pbf_tag_type tag, std::vector<std::string>& texts) {
    if (is_next(tag, protozero::pbf_wire_type::length_delimited)) texts.push_back(in_.get_bytes());
  }
  template <std::integral Number>
  void operator()(protozero::pbf_tag_type tag, std::vector<Number>& numbers) {
    if (is_next(tag, protozero::pbf_wire_type::varint)) {
      numbers.push_back(number<Number>(in_.get_uint64()));
    } else if (is_next(tag, protozero::pbf_wire_type::length_delimited)) {
      const protozero::data_view list = in_.get_view();
      const char* const end = list.data() + list.size();
      for (const char* next = list.data(); next != end;) {
        numbers.push_back(number<Number>(protozero::decode_varint(&next, end)));
      }
    }
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, std::vector<Message>& messages) {
    if (is_next(tag, protozero::pbf_wire_type::length_delimited)) Reader(in_.get_view()).read(messages.emplace_back());
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, std::optional<Message>& message) {
    if (is_next(tag, protozero::pbf_wire_type::length_delimited)) Reader(in_.get_view()).read(message.emplace());
  }
  template <Inner Message>
  void operator()(protozero::pbf_tag_type tag, Message& message) {
    if (is_next(tag, protozero::pbf_wire_type::length_delimited)) Reader(in_.get_view()).read(message);
  }

 private:
  bool is_next(protozero::pbf_tag_type tag, protozero::pbf_wire_type type) {
    if (is_read_ || in_.tag() != tag || in_.wire_type() != type) return false;
    return is_read_ = true;
  }

  template <class Number>
  static Number number(std::uint64_t varint) {
    return std::same_as<Number, bool> ? varint != 0 : static_cast<Number>(varint);
  }

  protozero::pbf_reader in_;
  bool is_read_ = false;  // true: the current field is read, and in_ is behind it
};

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  std::string bytes;
  Writer writer(bytes);
  fields(writer, envelope);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

Envelope decode(std::span<const std::byte> bytes) {
  Envelope envelope;
  try {
    Reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).read(envelope);
  } catch (const protozero::exception&) {
    throw DamagedMessage("malformed control message of " + std::to_string(bytes.size()) +
                         " bytes. Do all ranks run the same version of kolo?");
  }
  return envelope;
}

}  // namespace kolo::engine
