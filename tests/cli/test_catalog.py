"""``ascend-aclnn ops`` and ``show``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.cli import catalog as cli_catalog


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    cli_catalog.add_commands(parser.add_subparsers(required=True))
    options = parser.parse_args(arguments)
    return int(options.run(options))


def names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    run("ops", "--json", *arguments)
    return [row["name"] for row in json.loads(capsys.readouterr().out)]


def test_ops_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ops") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["function", "operator", "family", "products", "since", "what", "it", "computes"]
    assert lines[-1] == "1381 of 1381 operators"
    assert len(lines) == 1383


@pytest.mark.parametrize(
    "pattern",
    ["MoeTokenPermuteG", "moe_token_permute_g", "aclnnMoeTokenPermuteGrad", "tokenpermutegrad", "?oeTokenPermuteGr*"],
)
def test_ops_pattern(capsys: pytest.CaptureFixture[str], pattern: str) -> None:
    assert names(capsys, pattern) == ["aclnnMoeTokenPermuteGrad"]


def test_ops_finds_by_words_of_names_and_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    found = names(capsys, "layer norm")
    assert {"aclnnLayerNorm", "aclnnAddLayerNorm", "aclnnDeepNorm"} <= set(found) and len(found) < 40
    assert "aclnnAcos" in names(capsys, "cosine") and "aclnnSin" not in names(capsys, "cosine")
    assert names(capsys, "quantile normal") == ["aclnnNdtri"]


def test_ops_filters(capsys: pytest.CaptureFixture[str]) -> None:
    norms = names(capsys, "--family", "ops-nn/norm")
    assert "aclnnRmsNorm" in norms and "aclnnMm" not in norms
    on_310p = names(capsys, "--family", "ops-nn/norm", "--product", "310P")
    assert "aclnnRmsNorm" in on_310p and "aclnnGroupNorm" in norms and set(on_310p) < set(norms)
    assert "aclnnRmsNormGrad" in names(capsys, "rms", "--dtype", "bf16", "--product", "A2")
    assert "aclnnRmsNormGrad" not in names(capsys, "rms", "--dtype", "bf16", "--product", "310P")
    assert "aclnnRmsNormGrad" in names(capsys, "--has-reference")


def test_ops_without_a_match(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ops", "nosuchthing") == 1
    assert capsys.readouterr().out == "0 of 1381 operators\n"


def test_ops_unknown_dtype() -> None:
    with pytest.raises(ValueError, match="unknown data type 'FLOAT17'"):
        run("ops", "--dtype", "FLOAT17")


def test_ops_from_headers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "aclnn_abs.h").write_text(
        "aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor *input, aclTensor *out, uint64_t *w, aclOpExecutor **e);"
        "aclnnStatus aclnnMineGetWorkspaceSize(const aclTensor *x, uint64_t *w, aclOpExecutor **e);"
    )
    assert run("ops", "--from-headers", str(tmp_path)) == 0
    text = capsys.readouterr().out
    assert "aclnnMine(const aclTensor* x)" in text
    assert "aclnnAbs: names: self -> input" in text
    regular = sum(not catalog.get(name).experimental for name in catalog.names())
    assert f"lacking ({regular - 1})" in text
    run("ops", "--from-headers", str(tmp_path), "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["added"] == {"aclnnMine": [{"ctype": "const aclTensor*", "name": "x"}]}
    assert report["changed"]["aclnnAbs"]["abi"] is False


@pytest.mark.parametrize("name", ["aclnnRmsNormGrad", "RmsNormGrad", "rms_norm_grad", "RMSNORMGRAD"])
def test_show(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run("show", name) == 0
    text = capsys.readouterr().out
    assert text.startswith("ops.rms_norm_grad(dy, x, rstd, gamma, *, out=None, stream=None) -> (dx, dgamma)\n")
    assert text.splitlines()[1] == "Computes the gradients of RmsNorm with respect to input and gamma."
    assert "    dgamma = sum(dy * n), n = x * rstd\n" in text
    assert "(310P: not BF16)" in text
    assert "status 161002 ACLNN_ERR_PARAM_INVALID: a dtype is not supported" in text
    assert "document https://gitcode.com/cann/ops-nn/blob/master/norm/rms_norm_grad/docs/aclnnRmsNormGrad.md" in text
    assert "aclnnStatus aclnnRmsNormGradGetWorkspaceSize(const aclTensor* dy" in text
    assert max(map(len, text.splitlines())) <= 120


def test_show_names_that_differ_in_case(capsys: pytest.CaptureFixture[str]) -> None:
    for name, count in (("erfinv", 1), ("ErfInv", 1), ("ERFINV", 2)):
        run("show", name)
        assert capsys.readouterr().out.count("header   ") == count, name


def test_show_unknown_name_suggests() -> None:
    with pytest.raises(ValueError, match=r"no operator 'rmsnrm' in the catalog; did you mean aclnnRmsNorm, "):
        run("show", "rmsnrm")
    with pytest.raises(ValueError, match=r"no operator 'zzzzqq' in the catalog$"):
        run("show", "zzzzqq")


def test_show_json(capsys: pytest.CaptureFixture[str]) -> None:
    run("show", "rms_norm", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "aclnnRmsNorm"
    rows = {row["name"]: row for row in shown["parameters"]}
    assert rows["epsilon"]["default"] == 1e-6
    assert rows["yOut"]["python_name"] == "y" and rows["yOut"]["direction"] == "out"
    assert rows["x"]["dtypes_by_product"]["310P"] == ["FLOAT", "FLOAT16"]
    assert set(shown["coverage"]) == {"outputs", "checks", "reference"}


def test_show_a_single_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "MaxPoolWithArgmaxV1") == 0
    text = capsys.readouterr().out
    assert text.startswith("single operator MaxPoolWithArgmaxV1, run by its type name (aclopCompileAndExecute)")
    assert "  dilation   attribute  integers = [1, 1, 1, 1]\n" in text
    assert "  ceil_mode  attribute  bool = False             not read\n" in text
    assert "MaxPoolWithArgmaxV1 gets\n  x             x\n  ksize         ksize as middle integers\n" in text
    run("show", "MaxPool3DGrad")
    assert "\n  pads     pads\n" in (text := capsys.readouterr().out)
    assert "\nnot taken: data_format other than 'NCDHW'" in text
    run("show", "RotatedNMS")
    assert "not run: no public header or source defines it" in capsys.readouterr().out
    run("show", "MaxPoolWithArgmaxV1", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["type"] == "MaxPoolWithArgmaxV1" and shown["operators"] == []
    assert shown["attributes"]["ksize"] == {"type": "integers"}, "required"
    assert shown["arguments"]["y_shape"]["form"] == "shape"


def test_a_type_that_is_the_name_of_an_operator_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    run("show", "RmsNormGrad")
    text = capsys.readouterr().out
    assert text.startswith("ops.rms_norm_grad(") and "\n\nsingle operator RmsNormGrad, " in text
    run("show", "rms_norm_grad")
    assert "single operator" not in capsys.readouterr().out
    run("show", "RmsNormGrad", "--json")
    assert json.loads(capsys.readouterr().out)["name"] == "aclnnRmsNormGrad"


def test_ops_lists_single_operators(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ops", "--single") == 0
    assert "388 of 388 types of single operators" in capsys.readouterr().out
    assert run("ops", "--single", "max_pool") == 0
    assert "\nMaxPool3D " in capsys.readouterr().out
    assert run("ops", "--single", "*pool", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run("ops", "--single", "nothing") == 1
