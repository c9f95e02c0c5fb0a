// Two engines of adxl in two processes: `caller server NAME` and
// `caller client NAME ADDRESS LATER MILLISECONDS`, how long transfers may take. Prints statuses and values.
#include "acl/acl.h"
#include "adxl/adxl_engine.h"

#include <iostream>
#include <numeric>
#include <string>

using adxl::AdxlEngine;
using adxl::TransferOpDesc;

namespace {

constexpr size_t COUNT = 1 << 18; // of a block's numbers: more than a socket takes at once
constexpr size_t BYTES = COUNT * sizeof(int32_t);

int32_t *new_block(int32_t first) {
    void *block = nullptr;
    std::vector<int32_t> numbers(COUNT);
    std::iota(numbers.begin(), numbers.end(), first);
    if (aclrtMalloc(&block, BYTES, ACL_MEM_MALLOC_HUGE_FIRST) != 0) std::cerr << "no memory\n";
    aclrtMemcpy(block, BYTES, numbers.data(), BYTES, ACL_MEMCPY_HOST_TO_DEVICE);
    return static_cast<int32_t *>(block);
}

int64_t sum_of(const int32_t *block) {
    std::vector<int32_t> numbers(COUNT);
    aclrtMemcpy(numbers.data(), BYTES, block, BYTES, ACL_MEMCPY_DEVICE_TO_HOST);
    return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

adxl::MemHandle registered(AdxlEngine &engine, int32_t *block) {
    adxl::MemHandle handle = nullptr;
    adxl::MemDesc desc{reinterpret_cast<uintptr_t>(block), BYTES};
    std::cout << "register " << engine.RegisterMem(desc, adxl::MEM_DEVICE, handle) << std::endl;
    return handle;
}

void wait_for_line() {
    std::string line;
    std::getline(std::cin, line);
}

int serve(const char *name) {
    AdxlEngine engine, second;
    std::cout << "server " << engine.Initialize(name, {}) << " " << second.Initialize(name, {}) << std::endl;
    int32_t *block = new_block(0), *later = new_block(0);
    registered(engine, block);
    std::cout << reinterpret_cast<uintptr_t>(block) << "\n" << reinterpret_cast<uintptr_t>(later) << std::endl;
    wait_for_line(); // the client has connected
    registered(engine, later);
    wait_for_line();
    std::cout << "sum " << sum_of(block) << std::endl;
    engine.Finalize();
    return aclrtFree(block) + aclrtFree(later);
}

void ask(const char *name, uintptr_t there, uintptr_t later, int32_t wait) {
    AdxlEngine engine;
    std::cout << "connect before " << engine.Connect(name) << "\n";
    std::cout << "options " << engine.Initialize("127.0.0.1", {{adxl::OPTION_AUTO_CONNECT, "2"}}) << " "
              << engine.Initialize("127.0.0.1", {{adxl::OPTION_BUFFER_POOL, "4:8"}, {adxl::OPTION_AUTO_CONNECT, "0"}}) << "\n";
    int32_t *block = new_block(0), *other = new_block(0);
    uintptr_t here = reinterpret_cast<uintptr_t>(block);
    adxl::MemHandle handle = registered(engine, block);
    auto read = [&](AdxlEngine &from, std::vector<TransferOpDesc> parts) { return from.TransferSync(name, adxl::READ, parts, wait); };
    std::vector<TransferOpDesc> all{{here, there, BYTES}};
    std::cout << "not connected " << read(engine, all) << " " << engine.Disconnect(name) << "\n";
    std::cout << "nobody " << engine.Connect("127.0.0.1:9", 50) << "\n";
    std::cout << "connect " << engine.Connect(name, 60000) << " " << engine.Connect(name) << " " << engine.Connect(name, 0) << std::endl;
    wait_for_line(); // the server has registered more
    std::cout << "halves " << read(engine, {{here, there + BYTES / 2, BYTES / 2}, {here + BYTES / 2, there, BYTES / 2}}) << " sum " << sum_of(block)
              << "\n";
    std::cout << "null " << read(engine, {{0, there, 4}}) << "\n";
    std::cout << "local " << read(engine, {{reinterpret_cast<uintptr_t>(other), there, 4}}) << "\n";
    std::cout << "remote " << read(engine, {{here, there + BYTES - 4, 8}});
    std::cout << " " << aclGetRecentErrMsg() << "\n";
    std::cout << "later " << read(engine, {{here, later, 4}});
    std::cout << " " << aclGetRecentErrMsg() << "\n";
    aclrtMemset(block, BYTES, 0, BYTES);
    std::cout << "write " << engine.TransferSync(name, adxl::WRITE, {{here, there, BYTES / 2}}, 60000) << "\n";
    adxl::TransferReq request = nullptr;
    adxl::TransferStatus status{};
    std::cout << "async " << engine.TransferAsync(name, adxl::READ, all, {}, request) << " " << engine.GetTransferStatus(request, status);
    std::cout << " " << static_cast<int>(status) << " sum " << sum_of(block) << " again " << engine.GetTransferStatus(request, status) << "\n";
    std::cout << "deregister " << engine.DeregisterMem(handle) << " " << engine.DeregisterMem(handle) << " " << read(engine, all) << "\n";
    std::cout << "disconnect " << engine.Disconnect(name) << " " << engine.Disconnect(name) << "\n";
    AdxlEngine connecting;
    std::cout << "by itself " << connecting.Initialize("127.0.0.1", {{adxl::OPTION_AUTO_CONNECT, "1"}}) << "\n";
    registered(connecting, other);
    std::cout << "by itself " << read(connecting, {{reinterpret_cast<uintptr_t>(other), later, BYTES}}) << " sum " << sum_of(other) << "\n";
    aclrtFree(block);
    aclrtFree(other);
}

}

int main(int count, char **arguments) {
    std::string role = count > 1 ? arguments[1] : "";
    aclInit(nullptr);
    aclrtSetDevice(role == "server" ? 0 : 1);
    ge::AscendString empty, text("engine"), same("engines", 6);
    if (text != same || !(empty < text) || empty.GetLength() != 0 || std::string(same.GetString()) != "engine") return 2;
    if (role == "server") serve(arguments[2]);
    else ask(arguments[2], std::stoull(arguments[3]), std::stoull(arguments[4]), std::stoi(arguments[5]));
    aclrtResetDevice(role == "server" ? 0 : 1);
    return aclFinalize();
}
