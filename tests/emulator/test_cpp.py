"""C and C++ programs against the emulator's own headers and libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import catalog

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples" / "cpp"

# The sample's gradients of x and gamma: every value is exact in float32.
DX = """-1155 -2308 -3459 -4608 -5755 -6900 -8043 -9184 -10323 -11460 -12595 -13728 -14859 -15988 -17115 -18240
-860030 -910584 -961134 -1011680 -1062222 -1112760 -1163294 -1213824 -1264350 -1314872 -1365390 -1415904
-1466414 -1516920 -1567422 -1617920"""
DGAMMA = "579 652 731 816 907 1004 1107 1216 1331 1452 1579 1712 1851 1996 2147 2304"


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("g++") or shutil.which("c++")
    if found is None:
        pytest.skip("no C++ compiler (g++)")
    return found


def compile_and_run(compiler: str, home: Path, source: Path, directory: Path, flags: Sequence[str] = ()) -> str:
    """The output of a program that runs with nothing but LD_LIBRARY_PATH; nothing may leak."""
    program = directory / source.stem
    libraries = [f"-L{home / 'lib64'}", "-lopapi", "-lnnopbase", "-lascendcl"]
    command = [compiler, "-std=c++14", *flags, f"-I{home / 'include'}", str(source), "-o", str(program), *libraries]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    environment = {"LD_LIBRARY_PATH": str(home / "lib64"), "ASCEND_EMULATOR_STRICT": "1", "PATH": os.defpath}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


# -------------------------------------------------------------------------------------------------------- own samples


def sample(compiler: str, home: Path, name: str, directory: Path) -> dict[str, list[float]]:
    """What a sample printed: the numbers of all lines with the same name."""
    output = compile_and_run(compiler, home, SAMPLES / f"{name}.cpp", directory, ("-Wall", "-Wextra", "-Werror"))
    found: dict[str, list[float]] = {}
    for line in output.splitlines():
        label, _, rest = line.partition(": ")
        found.setdefault(label, []).extend(numbers(rest))
    return found


def test_sample_moe_token_permute_grad(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    assert sample(compiler, emulator_home, "moe_token_permute_grad", tmp_path) == {"out": [4, 6]}


def test_sample_rms_norm_grad(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    found = sample(compiler, emulator_home, "rms_norm_grad", tmp_path)
    rounded = [float(f"{value:g}") for value in numbers(DX)]  # as %g prints them
    assert found == {"dx": rounded, "dgamma": numbers(DGAMMA)}


def test_sample_embedding_dense_backward(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    found = sample(compiler, emulator_home, "embedding_dense_backward", tmp_path)
    assert found == {"out": [0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0]}


def test_sample_moe_init_routing_quant(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    assert sample(compiler, emulator_home, "moe_init_routing_quant", tmp_path) == {
        "expanded_x": [2, 6, 14, 100, 2, 6, 10, -10, 10, -10, 14, 100],
        "expanded_row_idx": [2, 4, 1, 0, 3, 5],
        "expanded_expert_idx": [0, 0, 1, 1, 2, 2],
    }


def test_samples_build_with_cmake(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    for command in (
        [
            cmake,
            "-S",
            str(SAMPLES),
            "-B",
            str(tmp_path),
            f"-DCANN_DIR={emulator_home}",
            f"-DCMAKE_CXX_COMPILER={compiler}",
        ],
        [cmake, "--build", str(tmp_path)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([str(tmp_path / "embedding_dense_backward")], check=True, capture_output=True).stdout


# ----------------------------------------------------------------------------------------------- the documents' samples


def documents_sample(shared: Path, operator: str, directory: Path) -> Path:
    """The C++ program in a document of an operator, as it stands there."""
    for path in sorted((shared / "seeds").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if f"{operator}GetWorkspaceSize(" in text and "int main()" in text:
            first = re.search(r"^\s*#include", text, re.M)
            assert first is not None
            program = text[first.start() :]
            end = program.rfind("}") + 1
            source = directory / f"{operator}.cpp"
            source.write_text(program[:end] + "\n", encoding="utf-8")
            return source
    raise AssertionError(f"no document with a program of {operator}")


def test_the_documents_rms_norm_grad(compiler: str, emulator_home: Path, shared: Path, tmp_path: Path) -> None:
    source = documents_sample(shared, "aclnnRmsNormGrad", tmp_path)
    output = compile_and_run(compiler, emulator_home, source, tmp_path)
    assert [float(line.split(": ")[1]) for line in output.splitlines()] == numbers(DX) + numbers(DGAMMA)


def test_the_documents_embedding(compiler: str, emulator_home: Path, shared: Path, tmp_path: Path) -> None:
    source = documents_sample(shared, "aclnnEmbeddingDenseBackward", tmp_path)
    output = compile_and_run(compiler, emulator_home, source, tmp_path)
    assert [float(line.split(": ")[1]) for line in output.splitlines()] == [0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0]


def test_the_documents_permute_grad_has_wrong_data(
    compiler: str, emulator_home: Path, shared: Path, tmp_path: Path
) -> None:
    """It puts floats into buffers that it describes as BF16 and INT32: one index is out of range and drops its row."""
    source = documents_sample(shared, "aclnnMoeTokenPermuteGrad", tmp_path)
    output = compile_and_run(compiler, emulator_home, source, tmp_path)
    assert [float(line.split(": ")[1]) for line in output.splitlines()] == [1, 0]


# -------------------------------------------------------------------------------------------------------------- headers


def test_every_header_compiles_as_c_and_as_cpp(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    include = emulator_home / "include"
    names = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.h"))
    assert len(names) > 1000
    for suffix, language, command in ((".c", "-std=c99", "cc"), (".cpp", "-std=c++11", compiler)):
        source = tmp_path / f"all{suffix}"
        only_cpp = ("atb/", "adxl/", "hixl/", "graph/")
        included = [name for name in names if suffix == ".cpp" or not name.startswith(only_cpp)]
        source.write_text("".join(f'#include "{name}"\n' for name in included))
        flags = [
            "-Wall",
            "-Wextra",
            "-Wstrict-prototypes" if suffix == ".c" else "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
        ]
        done = subprocess.run([command, language, *flags, f"-I{include}", str(source)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]


def test_each_header_stands_alone(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    include = emulator_home / "include"
    for name in ("acl/acl.h", "acl/acl_rt.h", "aclnn/acl_meta.h", "aclnnop/aclnn_add.h", "hccl/hccl.h", "aclemu.h"):
        source = tmp_path / "one.cpp"
        source.write_text(f'#include "{name}"\n')
        command = [compiler, "-fsyntax-only", "-Wall", "-Werror", f"-I{include}", str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_aggregates_older_paths_and_other_libraries(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    """Include paths and link lines of CANN 8.1's documents and of clients."""
    source = tmp_path / "clients.cpp"
    aggregates = [f"aclnnop/aclnn_{name}.h" for name in ("ops_infer", "ops_train", "math", "rand", "util")]
    older = ["aclnnop/aclnn_iou.h", "aclnnop/level2/aclnn_iou.h", "aclnnop/level2/aclnn_gemm.h"]
    others = ["aclnnop/aclnn_rope_with_sin_cos_cache.h", "aclnnop/aclnn_group_norm_backward.h"]
    source.write_text(
        "".join(f'#include "{name}"\n' for name in ("acl/acl.h", *aggregates, *older, *others))
        + "ACLNN_API int zero() { std::array<int, 2> both{{0, 1}}; return both[0]; }\nint main() { return zero(); }\n"
    )
    libraries = ("-lruntime", "-lplatform", "-lmsprofiler", "-lascend_hal")
    flags = ("-Wall", "-Wextra", "-Werror", f"-L{emulator_home / 'lib64'}", "-Wl,--no-as-needed", *libraries)
    assert compile_and_run(compiler, emulator_home, source, tmp_path, flags) == ""


@pytest.mark.parametrize(
    "include",
    [
        "hccl/hccl.h",  # includes acl/acl.h, as CANN's does
        "aclnnop/aclnn_all_gather_matmul.h",
        "aclnnop/aclnn_matmul_all_reduce.h",
        "aclnnop/level2/aclnn_matmul_reduce_scatter.h",
    ],
)
def test_headers_of_communication_bring_the_runtime(
    compiler: str, emulator_home: Path, tmp_path: Path, include: str
) -> None:
    """CANN 8.1's headers of communicating operators include hccl.h and <string>; programs rely on it."""
    text = "" if include == "hccl/hccl.h" else "    return static_cast<int>(std::string(rank.internal, 0).size());\n"
    source = tmp_path / "ranks.cpp"
    source.write_text(
        f'#include "{include}"\n'
        "int main() {\n"
        "    HcclComm comm = nullptr;\n"
        "    HcclRootInfo rank;\n"
        "    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;\n"
        "    if (HcclGetRootInfo(&rank) != HCCL_SUCCESS) return 2;\n"
        "    if (HcclCommInitRootInfo(1, &rank, 0, &comm) != HCCL_SUCCESS) return 3;\n"
        "    if (HcclCommDestroy(comm) != HCCL_SUCCESS || aclFinalize() != ACL_SUCCESS) return 4;\n"
        f"{text}"
        "}\n"
    )
    flags = (f"-L{emulator_home / 'lib64'}", "-Wl,--no-as-needed", "-lhccl")
    assert compile_and_run(compiler, emulator_home, source, tmp_path, flags) == ""


def program_of_ranks(operator: catalog.Operator) -> str:
    """What a program that runs a communicating operator includes and calls, as CANN's own do."""
    parameters = "".join(f"{p.ctype} {p.name}, " for p in operator.parameters)
    arguments = "".join(f"{p.name}, " for p in operator.parameters)
    return f"""#include "hccl/hccl.h"
#include "{operator.header}"
int run_{operator.python_name}({parameters}HcclRootInfo *info, HcclComm *comm_, void *space, aclrtStream stream_) {{
    uint64_t size_ = 0;
    aclOpExecutor *executor_ = 0;
    if (aclInit(0) != ACL_SUCCESS || HcclCommInitRootInfo(2, info, 0, comm_) != HCCL_SUCCESS) return 1;
    aclnnStatus status_ = {operator.name}GetWorkspaceSize({arguments}&size_, &executor_);
    return status_ ? status_ : {operator.name}(space, size_, executor_, stream_);
}}
"""


@pytest.mark.parametrize("suffix", [".c", pytest.param(".cpp", marks=pytest.mark.long)])  # <string> takes its time
def test_programs_of_ranks_compile(compiler: str, emulator_home: Path, tmp_path: Path, suffix: str) -> None:
    """One for each header of mc2, by one call of the compiler."""
    operators = [o for o in map(catalog.get, catalog.names()) if o.family == "ops-transformer/mc2"]
    assert len({operator.header for operator in operators}) > 70
    for operator in operators:
        (tmp_path / f"{operator.python_name}{suffix}").write_text(program_of_ranks(operator))
    sources = sorted(str(path) for path in tmp_path.glob(f"*{suffix}"))
    command = [
        "cc" if suffix == ".c" else compiler,
        "-fsyntax-only",
        "-Wall",
        "-Werror",
        f"-I{emulator_home / 'include'}",
    ]
    done = subprocess.run([*command, *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


NUMBERS = r"""
#include "aclnn/opdev/bfloat16.h"
#include <cstdio>
template <typename T> void write(T value) { std::fwrite(&value, sizeof value, 1, stdout); }
int main() {  // of two float32 at a time
    float pair[2];
    while (std::fread(pair, 4, 2, stdin) == 2) {
        op::fp16_t a(pair[0]), b(op::fp16_t(static_cast<double>(pair[1])));
        for (op::fp16_t h : {a, b, a + b, a - b, a * b, a / b}) write(h.val);
        op::bfloat16 x(pair[0]), y(pair[1]);
        for (op::bfloat16 v : {x, y, x + y, x - y, x * y, x / y}) write(v.value);
        write(static_cast<float>(a)), write(static_cast<float>(x));
        write(static_cast<int32_t>(a.toInt8())), write(static_cast<int32_t>(a.toUInt16()));
    }
}
"""


def test_numbers_of_16_bits(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    """op::fp16_t and op::bfloat16 beside NumPy's numbers, computed in float64 and rounded once."""
    source = tmp_path / "numbers.cpp"
    source.write_text(NUMBERS)
    program = tmp_path / "numbers"
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{emulator_home / 'include'}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True)
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = codes[np.isfinite(codes)].astype(np.float32)
    halfway = np.nextafter(every, np.float32(np.inf)), (every[:-1] + every[1:]) / 2
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([every, *halfway, patterns, np.float32([np.inf, -np.inf])])
    x = x[~np.isnan(x)]
    y = rng.permutation(x)
    done = subprocess.run([str(program)], input=np.stack([x, y], 1).tobytes(), capture_output=True, check=True)
    row = np.dtype([("half", "u2", 6), ("bfloat", "u2", 6), ("wide", "f4", 2), ("int8", "i4"), ("uint16", "i4")])
    found = np.frombuffer(done.stdout, row)
    with np.errstate(all="ignore"):
        for name, dtype in (("half", np.dtype(np.float16)), ("bfloat", np.dtype(ml_dtypes.bfloat16))):
            a, b = x.astype(dtype).astype(np.float64), y.astype(dtype).astype(np.float64)
            for number, exact in enumerate((a, b, a + b, a - b, a * b, a / b)):
                # op::bfloat16 computes in float32, and float64 rounded to that is the same.
                wanted = exact.astype(np.float16 if name == "half" else np.float32).astype(dtype)
                made = found[name][:, number].view(dtype)
                np.testing.assert_array_equal(made.astype(np.float32), wanted.astype(np.float32), f"{name} {number}")
        halves = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found["wide"][:, 0], halves)
    np.testing.assert_array_equal(found["wide"][:, 1], x.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(found["int8"], np.clip(np.rint(halves), -128, 127))
    np.testing.assert_array_equal(found["uint16"], np.clip(np.rint(halves), 0, 65535))


PROFILED = r"""
#include "acl/acl.h"
#include "acl/acl_prof.h"
#include <dlfcn.h>
#include <cstdio>
#include <initializer_list>
int main() {
    void *library = dlopen("libmsprofiler.so", RTLD_LAZY);
    for (const char *name : {"aclprofInit", "aclprofCreateConfig", "aclprofStart", "aclprofStop", "aclprofFinalize",
                             "aclprofDestroyConfig", "aclprofCreateStepInfo", "aclprofGetStepTimestamp",
                             "aclprofDestroyStepInfo"}) {
        if (library == nullptr || dlsym(library, name) == nullptr) return std::printf("%s\n", name), 1;
    }
    uint32_t device = 0;
    aclprofConfig *config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, nullptr, ACL_PROF_TASK_TIME);
    if (config == nullptr || aclprofStart(config) != ACL_ERROR_PROF_NOT_RUN) return 2;
    return aclprofDestroyConfig(config);
}
"""


def test_programs_link_and_load_the_profiler(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    """MindSpore looks these names up in libmsprofiler; C++ programs are linked against it, without libascendcl before it."""
    source = tmp_path / "profiled.cpp"
    source.write_text(PROFILED)
    flags = (
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-L{emulator_home / 'lib64'}",
        "-Wl,--no-as-needed",
        "-lmsprofiler",
        "-ldl",
    )
    assert compile_and_run(compiler, emulator_home, source, tmp_path, flags) == ""


SECURE = r"""
#include "securec.h"
#include <cstdint>
#include <cstdio>
#include <cstring>
#define EXPECT(condition) if (!(condition)) { std::printf("line %d\n", __LINE__); return 1; }
#define HOLDS(text) EXPECT(std::strcmp(d, text) == 0)
int main() {
    char d[8] = "1234567", overlapping[16] = "abcdefgh";
    // Memory: the result, and what is cleared when it fails.
    EXPECT(memset_s(d, 8, 'x', 8) == EOK && d[7] == 'x');
    EXPECT(memset_s(d, 4, 'y', 5) == ERANGE_AND_RESET && d[3] == 'y' && d[4] == 'x');
    EXPECT(memset_s(nullptr, 8, 0, 8) == EINVAL && memset_s(d, 0, 0, 0) == ERANGE);
    EXPECT(memcpy_s(d, 8, "abc", 4) == EOK); HOLDS("abc");
    EXPECT(memcpy_s(d, 8, "abcdefghi", 9) == ERANGE_AND_RESET && d[0] == 0 && d[7] == 0);
    EXPECT(memcpy_s(d, 8, nullptr, 1) == EINVAL_AND_RESET && memcpy_s(nullptr, 8, d, 1) == EINVAL);
    EXPECT(memcpy_s(overlapping, 16, overlapping + 2, 4) == EOVERLAP_AND_RESET && overlapping[2] == 0);
    EXPECT(memcpy_s(d, SECUREC_MEM_MAX_LEN + 1, "a", 1) == ERANGE);
    std::strcpy(overlapping, "abcdefgh");
    EXPECT(memmove_s(overlapping, 16, overlapping + 2, 7) == EOK && std::strcmp(overlapping, "cdefgh") == 0);
    // Strings.
    EXPECT(strcpy_s(d, 8, "1234567") == EOK); HOLDS("1234567");
    EXPECT(strcpy_s(d, 8, "12345678") == ERANGE_AND_RESET); HOLDS("");
    EXPECT(strncpy_s(d, 8, "12345678", 3) == EOK); HOLDS("123");
    EXPECT(strcat_s(d, 8, "4567") == EOK); HOLDS("1234567");
    EXPECT(strcat_s(d, 8, "8") == ERANGE_AND_RESET); HOLDS("");
    EXPECT(strcpy_s(d, 8, "12") == EOK && strncat_s(d, 8, "345", 2) == EOK); HOLDS("1234");
    EXPECT(strcpy_s(d, 8, d + 1) == EOVERLAP_AND_RESET && strcpy_s(d, 8, nullptr) == EINVAL_AND_RESET);
    std::memset(d, 'z', 8);
    EXPECT(strcat_s(d, 8, "") == EINVAL_AND_RESET && d[0] == 0);  // it had no end
    wchar_t w[4];
    EXPECT(wcscpy_s(w, 4, L"abc") == EOK && wcscat_s(w, 4, L"d") == ERANGE_AND_RESET && w[0] == 0);
    EXPECT(wmemcpy_s(w, 4, L"abc", 4) == EOK && w[2] == L'c' && wmemcpy_s(w, 4, L"abcd", 5) == ERANGE_AND_RESET && w[3] == 0);
    // Printing.
    EXPECT(sprintf_s(d, 8, "%d", 1234567) == 7); HOLDS("1234567");
    EXPECT(sprintf_s(d, 8, "%d", 12345678) == -1); HOLDS("");
    EXPECT(snprintf_s(d, 8, 3, "%d", 12345) == -1); HOLDS("123");
    EXPECT(snprintf_s(d, 8, 7, "%d", 12345) == 5); HOLDS("12345");
    EXPECT(snprintf_s(d, 8, 8, "%d", 12345678) == -1); HOLDS("");
    EXPECT(snprintf_truncated_s(d, 8, "%d", 123456789) == 7); HOLDS("1234567");
    EXPECT(snprintf_truncated_s(d, 8, "%d", 12) == 2); HOLDS("12");
    EXPECT(snprintf_truncated_s(d, 1, "%d", 12) == 0); HOLDS("");
    EXPECT(snprintf_truncated_s(d, 8, "ab%c%s", 0, "34567890") == 7 && d[6] == '6');
    EXPECT(snprintf_truncated_s(d, 0, "%d", 12) == -1 && snprintf_truncated_s(nullptr, 8, "%d", 12) == -1);
    volatile int written = 5;  // what %n would write
    char formats[][8] = {"%n", "a%1$hn", "%d%*n", "%%%lln"};
    for (const char *format : formats) EXPECT(sprintf_s(d, 8, format, &written, &written, &written) == -1 && written == 5);
    EXPECT(sprintf_s(d, 8, "%d%%n", 5) == 3); HOLDS("5%n");
    char cut[] = "5%";
    EXPECT(sprintf_s(d, 8, cut) < 7);
    // Sizes that wrap in bytes, and what overlaps nothing.
    EXPECT(wmemcpy_s(w, 4, L"abc", SIZE_MAX / 2) == ERANGE_AND_RESET && wmemmove_s(w, SIZE_MAX / 4 + 2, L"abc", 1) == ERANGE);
    EXPECT(wcsncpy_s(w, SIZE_MAX, L"abc", 1) == ERANGE && wcsncat_s(w, 4, L"abc", SIZE_MAX) == EOK);
    EXPECT(strncpy_s(d, 8, "ab", SIZE_MAX) == EOK && strcpy_s(d, 8, d) == EOK && strncat_s(d, 8, d + 2, 0) == EOK); HOLDS("ab");
    EXPECT(memcpy_s(d, 8, d + 1, 0) == EOK && memcpy_s(d, 8, d, 8) == EOK); HOLDS("ab");
    char text[] = "a,b", *rest = nullptr;
    EXPECT(std::strcmp(strtok_s(text, ",", &rest), "a") == 0 && std::strcmp(strtok_s(nullptr, ",", &rest), "b") == 0);
    EXPECT(strtok_s(nullptr, ",", &rest) == nullptr);
    return 0;
}
"""


def test_secure_functions(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    """The results that libc_sec's header documents, and what a failure leaves in the destination."""
    source = tmp_path / "secure.cpp"
    source.write_text(SECURE)
    flags = ("-Wall", "-Wextra", "-Wno-misleading-indentation")
    flags += (f"-L{emulator_home / 'lib64'}", "-Wl,--no-as-needed", "-lc_sec")
    assert compile_and_run(compiler, emulator_home, source, tmp_path, flags) == ""
