// What the samples share: errors as exceptions, and owners of the handles that CANN gives out.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace ascend {

// A failed call becomes an exception with its status and CANN's own words.
inline void check(int status, const char *what) {
    if (status == 0) return;
    const char *text = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(what) + ": " + std::to_string(status) + (text != nullptr ? std::string(" ") + text : ""));
}

#define ASCEND_CHECK(call) ::ascend::check((call), #call)

// CANN, one device and one stream, for as long as this lives.
class Session {
public:
    explicit Session(int32_t device = 0) : device_(device) {
        ASCEND_CHECK(aclInit(nullptr));
        ASCEND_CHECK(aclrtSetDevice(device_));
        ASCEND_CHECK(aclrtCreateStream(&stream_));
    }
    ~Session() {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(device_);
        aclFinalize();
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    aclrtStream stream() const { return stream_; }
    void synchronize() const { ASCEND_CHECK(aclrtSynchronizeStream(stream_)); }

private:
    int32_t device_;
    aclrtStream stream_ = nullptr;
};

// Device memory.
class Buffer {
public:
    explicit Buffer(size_t bytes) : bytes_(bytes) {
        if (bytes_ > 0) ASCEND_CHECK(aclrtMalloc(&address_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    ~Buffer() {
        if (address_ != nullptr) aclrtFree(address_);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    void *address() const { return address_; }
    size_t bytes() const { return bytes_; }

private:
    void *address_ = nullptr;
    size_t bytes_;
};

// bfloat16 as CANN stores it: the upper half of a float, rounded half to even.
struct bfloat16 {
    uint16_t bits = 0;
    bfloat16() = default;
    bfloat16(float value) {
        uint32_t word;
        std::memcpy(&word, &value, sizeof word);
        bits = static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
    operator float() const {
        uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

template <typename T> struct DataType;
template <> struct DataType<float> { static constexpr aclDataType value = ACL_FLOAT; };
template <> struct DataType<bfloat16> { static constexpr aclDataType value = ACL_BF16; };
template <> struct DataType<int8_t> { static constexpr aclDataType value = ACL_INT8; };
template <> struct DataType<int32_t> { static constexpr aclDataType value = ACL_INT32; };
template <> struct DataType<int64_t> { static constexpr aclDataType value = ACL_INT64; };

// A contiguous tensor whose element type on the device is that of its values on the host: the two cannot disagree.
template <typename T> class Tensor {
public:
    Tensor(std::vector<int64_t> shape, const std::vector<T> &values) : Tensor(std::move(shape)) {
        if (values.size() * sizeof(T) != buffer_.bytes()) throw std::invalid_argument("the values do not fill the shape");
        ASCEND_CHECK(aclrtMemcpy(buffer_.address(), buffer_.bytes(), values.data(), buffer_.bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    explicit Tensor(std::vector<int64_t> shape) : shape_(std::move(shape)), buffer_(elements() * sizeof(T)) {
        handle_ = aclCreateTensor(shape_.data(), shape_.size(), DataType<T>::value, nullptr, 0, ACL_FORMAT_ND, shape_.data(),
                                  shape_.size(), buffer_.address());
        if (handle_ == nullptr) check(-1, "aclCreateTensor");
    }
    ~Tensor() { aclDestroyTensor(handle_); }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    aclTensor *get() const { return handle_; }

    std::vector<T> read() const {
        std::vector<T> values(elements());
        ASCEND_CHECK(aclrtMemcpy(values.data(), buffer_.bytes(), buffer_.address(), buffer_.bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return values;
    }

    // One line for each row.
    void print(const char *name) const {
        std::vector<T> values = read();
        size_t row = shape_.size() > 1 ? static_cast<size_t>(shape_.back()) : values.size();
        for (size_t i = 0; i < values.size(); i++)
            std::printf("%s%g%s", i % row == 0 ? (std::string(name) + ": ").c_str() : " ", static_cast<double>(values[i]),
                        (i + 1) % row == 0 ? "\n" : "");
    }

private:
    size_t elements() const {
        size_t count = 1;
        for (int64_t n : shape_) count *= static_cast<size_t>(n);
        return count;
    }
    std::vector<int64_t> shape_;
    Buffer buffer_;
    aclTensor *handle_ = nullptr;
};

// Both phases of an operator, and waiting for it. The workspace lives until the stream has passed the operator.
template <typename PhaseOne, typename PhaseTwo, typename... Arguments>
void run(const Session &session, PhaseOne phase_one, PhaseTwo phase_two, Arguments... arguments) {
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    check(phase_one(arguments..., &size, &executor), "phase one");
    Buffer workspace(size);
    check(phase_two(workspace.address(), size, executor, session.stream()), "phase two");
    session.synchronize();
}

// A sample's main function: prints what went wrong.
template <typename Body> int report(Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

} // namespace ascend
