/* Strings of CANN's C++ interfaces: the same for old and new std::string. */
#ifndef ASCEND_ACLNN_GRAPH_ASCEND_STRING_H
#define ASCEND_ACLNN_GRAPH_ASCEND_STRING_H

#include <cstddef>
#include <memory>
#include <string>

namespace ge {

class AscendString {
public:
    AscendString() = default;
    AscendString(const char *text);
    AscendString(const char *text, size_t length);
    const char *GetString() const; /* never a null pointer */
    size_t GetLength() const;
    bool operator<(const AscendString &other) const;
    bool operator>(const AscendString &other) const;
    bool operator<=(const AscendString &other) const;
    bool operator>=(const AscendString &other) const;
    bool operator==(const AscendString &other) const;
    bool operator!=(const AscendString &other) const;

private:
    std::shared_ptr<std::string> text_; /* of the library, and no std::string in the emulated one */
};

}

#endif
