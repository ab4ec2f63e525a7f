// Calls one function with arguments in JSON from the input and writes its value, in JSON, as the output's last line.
// What it can take and give: bool, whole numbers, floating ones, char (a text of one sign), strings, const char*, vectors, pairs,
// maps with string keys, optionals; an array of any of them where a pointer is wanted. It is part of the guest: nobody believes it.
#include <algorithm>
#include <array>
#include <bitset>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace called {

struct Input {
    std::string text;
    std::size_t at = 0;

    [[noreturn]] static void refuse(const char* why) {
        std::fprintf(stderr, "%s\n", why);
        std::_Exit(3);
    }
    char next() {
        while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
        return at < text.size() ? text[at] : '\0';
    }
    bool take(char sign) {
        if (next() != sign) return false;
        ++at;
        return true;
    }
    bool take(const char* word) {
        next();
        std::size_t length = std::strlen(word);
        if (text.compare(at, length, word) != 0) return false;
        at += length;
        return true;
    }
    void need(char sign) {
        if (!take(sign)) refuse("an argument is of another kind than the parameter");
    }
    std::string number() {
        next();
        std::size_t start = at;
        while (at < text.size() && std::strchr("+-.eE0123456789", text[at])) ++at;
        if (start == at) refuse("a number is wanted by a parameter");
        return text.substr(start, at - start);
    }
    std::string string() {
        need('"');
        std::string found;
        while (at < text.size() && text[at] != '"') {
            char sign = text[at++];
            if (sign != '\\') { found += sign; continue; }
            switch (char escaped = text[at++]) {
                case 'n': found += '\n'; break;
                case 't': found += '\t'; break;
                case 'r': found += '\r'; break;
                case 'b': found += '\b'; break;
                case 'f': found += '\f'; break;
                case 'u': found += static_cast<char>(std::strtol(text.substr(at, 4).c_str(), nullptr, 16)); at += 4; break;
                default: found += escaped;
            }
        }
        need('"');
        return found;
    }
};

template <class T> struct Argument {
    static_assert(std::is_arithmetic_v<T>, "a parameter of this type is not given");
    static T read(Input& in) {
        if constexpr (std::is_same_v<T, bool>) {
            if (in.take("true")) return true;
            if (in.take("false")) return false;
            Input::refuse("a parameter wants true or false");
        } else if constexpr (std::is_same_v<T, char>) {
            std::string text = in.string();
            if (text.size() != 1) Input::refuse("a parameter wants a text of one sign");
            return text[0];
        } else if constexpr (std::is_floating_point_v<T>) {
            return static_cast<T>(std::strtold(in.number().c_str(), nullptr));
        } else {
            std::string digits = in.number();
            char* end = nullptr;
            errno = 0;
            T value;
            if constexpr (std::is_signed_v<T>) {
                long long wide = std::strtoll(digits.c_str(), &end, 10);
                value = static_cast<T>(wide);
                if (errno || *end || static_cast<long long>(value) != wide) Input::refuse("a whole number does not fit its parameter");
            } else {
                unsigned long long wide = std::strtoull(digits.c_str(), &end, 10);
                value = static_cast<T>(wide);
                if (errno || *end || digits[0] == '-' || static_cast<unsigned long long>(value) != wide)
                    Input::refuse("a whole number does not fit its parameter");
            }
            return value;
        }
    }
};
template <> struct Argument<std::string> {
    static std::string read(Input& in) { return in.string(); }
};
template <class T> struct Argument<std::vector<T>> {
    static std::vector<T> read(Input& in) {
        std::vector<T> found;
        in.need('[');
        while (!in.take(']')) {
            if (!found.empty()) in.need(',');
            found.push_back(Argument<T>::read(in));
        }
        return found;
    }
};
template <class K, class V> struct Argument<std::pair<K, V>> {
    static std::pair<K, V> read(Input& in) {
        in.need('[');
        K first = Argument<K>::read(in);
        in.need(',');
        V second = Argument<V>::read(in);
        in.need(']');
        return {std::move(first), std::move(second)};
    }
};
template <class M> M read_map(Input& in) {
    M found;
    in.need('{');
    while (!in.take('}')) {
        if (!found.empty()) in.need(',');
        std::string key = in.string();
        in.need(':');
        found[key] = Argument<typename M::mapped_type>::read(in);
    }
    return found;
}
template <class V> struct Argument<std::map<std::string, V>> {
    static auto read(Input& in) { return read_map<std::map<std::string, V>>(in); }
};
template <class V> struct Argument<std::unordered_map<std::string, V>> {
    static auto read(Input& in) { return read_map<std::unordered_map<std::string, V>>(in); }
};
template <class T> struct Argument<std::optional<T>> {
    static std::optional<T> read(Input& in) {
        if (in.take("null")) return std::nullopt;
        return Argument<T>::read(in);
    }
};
template <class T> struct Argument<T*> {  // kept for ever: the process ends with the call
    static T* read(Input& in) {
        using Item = std::remove_const_t<T>;
        if (in.take("null")) return nullptr;
        if constexpr (std::is_same_v<Item, char>) {
            return (new std::string(in.string()))->data();
        } else if constexpr (std::is_same_v<Item, bool>) {
            auto read = Argument<std::vector<bool>>::read(in);
            bool* kept = new bool[read.size() + 1];
            std::copy(read.begin(), read.end(), kept);
            return kept;
        } else {
            return (new std::vector<Item>(Argument<std::vector<Item>>::read(in)))->data();
        }
    }
};

inline void write(std::string& out, const std::string& text) {
    out += '"';
    for (unsigned char sign : text) {
        char escaped[8];
        if (sign == '"' || sign == '\\') { out += '\\'; out += static_cast<char>(sign); }
        else if (sign < 0x20) { std::snprintf(escaped, sizeof escaped, "\\u%04x", sign); out += escaped; }
        else out += static_cast<char>(sign);
    }
    out += '"';
}
inline void write(std::string& out, const char* text) { text ? write(out, std::string(text)) : void(out += "null"); }
inline void write(std::string& out, char* text) { write(out, static_cast<const char*>(text)); }
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> void write(std::string& out, T value) {
    if constexpr (std::is_same_v<T, bool>) out += value ? "true" : "false";
    else if constexpr (std::is_same_v<T, char>) write(out, std::string(1, value));
    else if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) Input::refuse("its value is no finite number");
        char digits[48];
        std::snprintf(digits, sizeof digits, "%.17Lg", static_cast<long double>(value));
        out += digits;
    } else out += std::to_string(value);
}
template <class V> void write(std::string& out, const std::map<std::string, V>& values);
template <class V> void write(std::string& out, const std::unordered_map<std::string, V>& values);
template <class K, class V> void write(std::string& out, const std::pair<K, V>& both);
template <class T> void write(std::string& out, const std::optional<T>& value);
template <class T> void write(std::string& out, const std::vector<T>& values);
template <class T> void write(std::string& out, const std::set<T>& values);
template <class L> void write_list(std::string& out, const L& values) {
    out += '[';
    bool first = true;
    for (const auto& value : values) {
        if (!first) out += ',';
        first = false;
        write(out, static_cast<const typename L::value_type&>(value));
    }
    out += ']';
}
template <class M> void write_map(std::string& out, const M& values) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : values) {
        if (!first) out += ',';
        first = false;
        write(out, key);
        out += ':';
        write(out, value);
    }
    out += '}';
}
template <class V> void write(std::string& out, const std::map<std::string, V>& values) { write_map(out, values); }
template <class V> void write(std::string& out, const std::unordered_map<std::string, V>& values) { write_map(out, values); }
template <class K, class V> void write(std::string& out, const std::pair<K, V>& both) {
    out += '[';
    write(out, both.first);
    out += ',';
    write(out, both.second);
    out += ']';
}
template <class T> void write(std::string& out, const std::optional<T>& value) { value ? write(out, *value) : void(out += "null"); }
template <class T> void write(std::string& out, const std::vector<T>& values) { write_list(out, values); }
template <class T> void write(std::string& out, const std::set<T>& values) { write_list(out, values); }

template <class R, class F, class... A> void answer(F&& function, std::tuple<A...>*) {
    Input in;
    in.text.assign(std::istreambuf_iterator<char>(std::cin), {});
    in.need('[');
    bool first = true;
    auto one = [&](auto* kind) {
        if (!first) in.need(',');
        first = false;
        return Argument<std::remove_pointer_t<decltype(kind)>>::read(in);
    };
    std::tuple<A...> arguments{one(static_cast<A*>(nullptr))...};
    if (!in.take(']')) Input::refuse("there are more arguments than parameters");
    std::string out = "\n[{\"value\":";
    if constexpr (std::is_void_v<R>) { std::apply(function, arguments); out += "null"; }
    else write(out, static_cast<std::decay_t<R>>(std::apply(function, arguments)));
    std::fflush(stdout);
    std::cout.flush();
    out += "}]\n";
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
    std::_Exit(0);
}
template <class R, class... A> void call(R (*function)(A...)) {
    answer<R>(function, static_cast<std::tuple<std::decay_t<A>...>*>(nullptr));
}
template <class C, class R, class... A> void call(R (C::*function)(A...)) {
    static C object;
    answer<R>([&](auto&... arguments) -> R { return (object.*function)(arguments...); },
              static_cast<std::tuple<std::decay_t<A>...>*>(nullptr));
}
template <class C, class R, class... A> void call(R (C::*function)(A...) const) {
    static C object;
    answer<R>([&](auto&... arguments) -> R { return (object.*function)(arguments...); },
              static_cast<std::tuple<std::decay_t<A>...>*>(nullptr));
}

}  // namespace called
