/* atb::SVector: a list of at most 256 elements, the first 64 of which lie in the object itself. */
#ifndef ASCEND_ACLNN_ATB_SVECTOR_H
#define ASCEND_ACLNN_ATB_SVECTOR_H

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>

namespace atb {

constexpr std::size_t MAX_SVECTOR_SIZE = 256;
constexpr std::size_t DEFAULT_SVECTOR_SIZE = 64;

struct MaxSizeExceeded : public std::exception {};

template <class T>
class SVector {
public:
    constexpr SVector() : storage_() {}
    explicit SVector(std::size_t size, const T &value = T()) : storage_() {
        resize(size);
        for (std::size_t i = 0; i < size; ++i) begin()[i] = value;
    }
    SVector(std::initializer_list<T> items) : storage_() { assign(items.begin(), items.size()); }
    SVector(const SVector &other) : storage_() { assign(other.begin(), other.size_); }
    ~SVector() { std::free(heap_); }

    SVector &operator=(const SVector &other) {
        if (this != &other) assign(other.begin(), other.size_);
        return *this;
    }
    SVector &operator=(std::initializer_list<T> items) {
        assign(items.begin(), items.size());
        return *this;
    }

    void push_back(const T &value) {
        resize(size_ + 1);
        begin()[size_ - 1] = value;
    }
    void insert(std::size_t position, const T &value) {
        if (position > size_) throw std::out_of_range("SVector::insert");
        resize(size_ + 1);
        for (std::size_t i = size_ - 1; i > position; --i) begin()[i] = begin()[i - 1];
        begin()[position] = value;
    }
    void resize(std::size_t size) {
        if (size > DEFAULT_SVECTOR_SIZE) reserve(MAX_SVECTOR_SIZE);
        if (size > MAX_SVECTOR_SIZE) throw MaxSizeExceeded();
        size_ = size;
    }
    /* Room for more than 64 elements; those that are there stay. */
    void reserve(std::size_t size) {
        if (size > MAX_SVECTOR_SIZE) throw MaxSizeExceeded();
        if (size <= DEFAULT_SVECTOR_SIZE || (heap_ != nullptr && size <= capacity_)) return;
        T *room = static_cast<T *>(std::malloc(MAX_SVECTOR_SIZE * sizeof(T)));
        if (room == nullptr) throw std::bad_alloc();
        for (std::size_t i = 0; i < MAX_SVECTOR_SIZE; ++i) new (room + i) T(i < size_ ? begin()[i] : T());
        std::free(heap_);
        heap_ = room;
        capacity_ = MAX_SVECTOR_SIZE;
    }
    void clear() noexcept { size_ = 0; }

    T &at(std::size_t i) { return i < size_ ? begin()[i] : throw std::out_of_range("SVector"); }
    const T &at(std::size_t i) const { return i < size_ ? begin()[i] : throw std::out_of_range("SVector"); }
    T &operator[](std::size_t i) { return at(i); }
    const T &operator[](std::size_t i) const { return at(i); }
    T *begin() noexcept { return heap_ != nullptr ? heap_ : storage_; }
    const T *begin() const noexcept { return heap_ != nullptr ? heap_ : storage_; }
    T *end() noexcept { return begin() + size_; }
    const T *end() const noexcept { return begin() + size_; }
    T *data() noexcept { return begin(); }
    const T *data() const noexcept { return begin(); }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }

private:
    void assign(const T *items, std::size_t count) {
        resize(count);
        for (std::size_t i = 0; i < count; ++i) begin()[i] = items[i];
    }

    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
    T storage_[DEFAULT_SVECTOR_SIZE + 1];
    T *heap_ = nullptr;
};

}

#endif
