"""What the doctor finds on made-up hosts: device files, several CANNs, kernels, versions, the log; and what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

import pytest

from ascend_aclnn.cli import host_checks
from ascend_aclnn.cli.host_checks import Finding, check_host


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with one card, a driver and one CANN in order."""
    (tmp_path / "usr/local/Ascend/driver").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    for name in ("davinci0", *host_checks.CONTROL_NODES):
        (tmp_path / "dev" / name).touch()
    make_cann(tmp_path / "cann")
    return tmp_path


def make_cann(home: Path, version: str = "8.1.RC1", kernels: str = "ascend910b") -> Path:
    library = home / "lib64/libascendcl.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF")
    for package in ("runtime", "opp"):
        put_version(home, package, version)
    (home / "opp/built-in/op_impl/ai_core/tbe/kernel" / kernels).mkdir(parents=True)
    return library


def put_version(home: Path, package: str, version: str) -> None:
    path = home / "share/info" / package / "version.info"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Version={version}\n")


def look(host: Path, soc: str = "Ascend910B", **environ: str) -> list[Finding]:
    home = host / "cann"
    arguments = {"LD_LIBRARY_PATH": str(home / "lib64"), "ASCEND_HOME_PATH": str(home), **environ}
    return check_host(host, arguments, home / "lib64/libascendcl.so", soc)


def test_a_host_in_order_has_no_findings(host: Path) -> None:
    assert look(host) == []


def test_a_host_that_is_not_meant_to_have_a_card_has_none_either(tmp_path: Path) -> None:
    assert check_host(tmp_path, {}) == []


def test_a_missing_control_node(host: Path) -> None:
    (host / "dev/devmm_svm").unlink()
    (found,) = look(host)
    assert found.check == "device files" and "/dev/devmm_svm" in found.text and "npu-smi info" in found.remedy


@pytest.mark.parametrize("sign", ["dockerenv", "cgroup"])
def test_a_container_without_its_devices(host: Path, sign: str) -> None:
    if sign == "dockerenv":
        (host / ".dockerenv").touch()
    else:
        (host / "proc/1").mkdir(parents=True)
        (host / "proc/1/cgroup").write_text("0::/kubepods/burstable/pod1\n")
    for path in (host / "dev").iterdir():
        path.unlink()
    (found,) = look(host)
    assert "no card at all" in found.text and "--device=/dev/davinci_manager" in found.remedy
    assert "another container holds" in found.remedy


def test_a_device_file_of_another_group(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access

    def access(path: Any, mode: int) -> bool:
        return Path(path).name != "davinci0" and real(path, mode)

    monkeypatch.setattr(os, "access", access)
    (host / "dev/davinci0").chmod(0o660)
    (found,) = look(host)
    assert "/dev/davinci0 belongs to" in found.text and "mode 660" in found.text and "may not use it" in found.text
    assert found.remedy.startswith("usermod -a -G ")


def test_several_canns_in_the_search_path(host: Path) -> None:
    other = make_cann(host / "other", "8.3.RC1")
    (found,) = look(host, LD_LIBRARY_PATH=f"{host / 'cann/lib64'}:{other.parent}")
    assert "2 CANNs" in found.text and str(other.parent) in found.text and "one set_env.sh" in found.remedy
    (host / "link").symlink_to(host / "cann/lib64")
    assert look(host, LD_LIBRARY_PATH=f"{host / 'cann/lib64'}:{host / 'link'}") == []


def test_the_environment_of_another_cann(host: Path) -> None:
    make_cann(host / "other")
    (found,) = look(host, ASCEND_HOME_PATH=str(host / "other"))
    assert found.check == "environment" and str(host / "other") in found.text and "set_env.sh" in found.remedy


def test_no_kernels_for_the_device(host: Path) -> None:
    (found,) = look(host, soc="Ascend310P")
    assert found.check == "kernels" and "ascend310p" in found.text and "ascend910b" in found.text
    assert "561112" in found.text and "Ascend310P" in found.remedy


def test_kernels_of_a_package_beside_opp(host: Path) -> None:
    (host / "cann/opp_latest/built-in/op_impl/ai_core/tbe/kernel/ascend310p").mkdir(parents=True)
    assert look(host, soc="Ascend310P") == []


def test_packages_of_different_releases(host: Path) -> None:
    put_version(host / "cann", "opp", "8.3.RC1")
    (found,) = look(host)
    assert found.check == "versions" and "runtime 8.1.RC1, opp 8.3.RC1" in found.text
    put_version(host / "cann", "opp", "8.1.RC1.beta1")
    assert look(host) == []


DRIVER = """Version=24.1.0
ascendhal_version=7.35.23
Innerversion=V100R001C19SPC002B226
compatible_version=[V100R001C15],[V100R001C17],[V100R001C18],[V100R001C19]
compatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.5.99]
"""
TOOLKIT = """package_name=Ascend-cann-toolkit
version={0}
innerversion=V100R001C{1}SPC001B238
compatible_version={2}
"""


@pytest.mark.parametrize(
    ("version", "branch", "compatible", "good"),
    [
        (
            "8.1.RC1",
            21,
            "[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]",
            True,
        ),  # the toolkit names the driver
        ("8.0.RC2", 18, "[V100R001C15],[V100R001C18]", True),  # the driver names the toolkit
        ("8.5.0", 25, "[V100R001C21],[V100R001C23],[V100R001C25]", False),
    ],
)
def test_a_driver_and_a_cann_that_do_not_go_together(
    host: Path, version: str, branch: int, compatible: str, good: bool
) -> None:
    (host / "usr/local/Ascend/driver/version.info").write_text(DRIVER)
    (host / "cann/ascend_toolkit_install.info").write_text(TOOLKIT.format(version, branch, compatible))
    found = look(host)
    if good:
        assert found == []
        return
    assert [finding.check for finding in found] == ["versions"]
    assert "driver 24.1.0 (V100R001C19) and CANN 8.5.0 (V100R001C25)" in found[0].text
    assert "release notes of CANN 8.5.0" in found[0].remedy


def test_a_cann_that_says_nothing_of_drivers_is_not_judged(host: Path) -> None:
    (host / "usr/local/Ascend/driver/version.info").write_text(DRIVER)
    (host / "cann/ascend_toolkit_install.info").write_text("version=9.0.0\n")
    assert look(host) == []


@pytest.mark.parametrize(("firmware", "good"), [("7.5.0.1.129", True), ("6.4.12.1.241", True), ("7.7.0.1.231", False)])
def test_firmware_of_another_driver(host: Path, firmware: str, good: bool) -> None:
    (host / "usr/local/Ascend/driver/version.info").write_text(DRIVER)
    (host / "usr/local/Ascend/firmware").mkdir()
    (host / "usr/local/Ascend/firmware/version.info").write_text(f"Version={firmware}\n")
    found = look(host)
    assert (found == []) == good
    assert good or (f"firmware {firmware}" in found[0].text and "7.5.99" in found[0].text)


def test_versions_are_read_from_the_files_of_an_install(tmp_path: Path) -> None:
    note = tmp_path / "version.info"
    note.write_text("package=x\nVersion=24.1.rc3 \nVersion_dir=y\n")
    assert host_checks.value_of(note, "Version") == "24.1.rc3"
    assert host_checks.value_of(note, "Absent") is None
    assert host_checks.value_of(tmp_path / "absent", "Version") is None


def test_the_last_errors_of_the_newest_log(host: Path) -> None:
    folder = host / "root/ascend/log/debug/plog"
    folder.mkdir(parents=True)
    old, new = folder / "plog-1_1.log", folder / "plog-2_2.log"
    old.write_text("[ERROR] old\n")
    new.write_text("[INFO] a\n" + "".join(f"[ERROR] {i}\n" for i in range(9)) + "[INFO] b\n")
    os.utime(old, (1, 1))
    assert host_checks.last_log_lines(host, {"HOME": "/root"}) == [f"[ERROR] {i}" for i in range(4, 9)]
    assert host_checks.last_log_lines(host, {"ASCEND_PROCESS_LOG_PATH": str(host)}) == []


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("aclrtSetDevice returned 507033: E30006: Failed to verify the OPP", "operator packages were not accepted"),
        ("drvRet=-8005", "give the container the device files"),
        ("status 507008 from aclInit", "give the container the device files"),
        ("aclrtSetDevice returned 507033", "reinstall the kernels"),
        ("status 561112", "install the kernels"),
        ("EE2002: ASCEND_RT_VISIBLE_DEVICES", "ascending numbers between commas"),
        ("anything else", "npu-smi info"),
    ],
)
def test_symptoms_have_their_remedy(text: str, remedy: str) -> None:
    assert remedy in host_checks.remedy_for(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("0", None),
        ("0,3,11", None),
        ("1,1", "numbers must ascend and not repeat; CANN sees no device"),
        ("2,1", "numbers must ascend"),
        ("", "CANN sees no device"),
        ("x,1", "CANN sees no device"),
        ("0, 1", "CANN reads 0 of it: ' 1' is no number"),
        ("0,1,", "CANN reads 0,1 of it: '' is no number"),
    ],
)
def test_visible_devices(value: Optional[str], text: Optional[str]) -> None:
    environ = {} if value is None else {"ASCEND_RT_VISIBLE_DEVICES": value}
    found = list(host_checks.check_visible_devices(environ))
    assert bool(found) == bool(text)
    for finding in found:
        assert text and text in finding.text and "ascending numbers" in finding.remedy
