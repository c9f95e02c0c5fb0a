/*
 * The graph engine (libgraph, libge_runner), as far as clients that run no graph need it at load: MindSpore links against it
 * and registers operator types at start-up. The functions are C++ functions under their mangled names. Those that are not here
 * are generated from catalog/data/graph_functions.json and refuse.
 */
#include "graph/graph_engine.h"

#include <stdio.h>
#include <stdlib.h>

/* std::__throw_runtime_error(const char *): most of these functions return no status, so they refuse with an exception. A C++
 * client brings libstdc++ along; it is not linked here, so that the build needs no C++ compiler. */
extern void _ZSt21__throw_runtime_errorPKc(const char *text) __attribute__((weak, noreturn));

void emu_refuse_graph(const char *function) {
    char text[512];
    snprintf(text, sizeof text, "%s is not emulated: the emulated device runs operators, not graphs", function);
    if (_ZSt21__throw_runtime_errorPKc != NULL) _ZSt21__throw_runtime_errorPKc(text);
    fprintf(stderr, "%s\n", text);
    abort();
}

/* A std::map<uint32_t, std::string> without elements, as libstdc++ lays it out: the methods of ge::StatusFactory are inline in
 * CANN's header, and clients store their texts in it. */
static struct {
    void *compare;
    struct { int colour; void *parent, *left, *right; } header;
    size_t count;
} status_texts = {.header = {.left = &status_texts.header, .right = &status_texts.header}};

/* ge::StatusFactory::Instance() */
API void *_ZN2ge13StatusFactory8InstanceEv(void) { return &status_texts; }

/* ge::GEInitialize(const std::map<std::string, std::string> &): SUCCESS, because MindSpore starts the engine even to run single
 * operators by type name. */
API uint32_t _ZN2ge12GEInitializeERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE(const void *options) { return (void)options, 0; }

/* ge::OperatorFactory::IsExistOp(const char *), (const std::string &) */
API bool _ZN2ge15OperatorFactory9IsExistOpEPKc(const void *type) { return (void)type, false; }
API bool _ZN2ge15OperatorFactory9IsExistOpERKSs(const void *type) { return (void)type, false; }

/* Constructors of ge::OperatorCreatorRegister (by C string, by std::string) and ge::InferShapeFuncRegister: what they register
 * makes nodes of graphs, and is dropped. */
API void _ZN2ge23OperatorCreatorRegisterC1EPKcRKSt8functionIFNS_8OperatorERKNS_12AscendStringEEE(void) {}
API void _ZN2ge23OperatorCreatorRegisterC1ERKSsRKSt8functionIFNS_8OperatorES2_EE(void) {}
API void _ZN2ge22InferShapeFuncRegisterC1ERKSsRKSt8functionIFjRNS_8OperatorEEE(void) {}
