/* What the operators' headers of CANN mark exported functions with. */
#ifndef ASCEND_ACLNN_ACLNNOP_ACLNN_UTIL_H
#define ASCEND_ACLNN_ACLNNOP_ACLNN_UTIL_H

#define ACLNN_API __attribute__((visibility("default")))

#endif
