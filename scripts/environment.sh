# Sourced by the other scripts: makes a virtual environment, and leaves it alone while nothing has changed.
#
#   make_environment DIRECTORY REQUIREMENT...    installs this checkout (editable) with the requirements; sets $python
#
# ASCEND_ACLNN_VENVS is where environments go (the checkout by default), PYTHON the interpreter they are made with.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

make_environment() {
  local name=$1 place=${ASCEND_ACLNN_VENVS:-$PWD} base=${PYTHON:-python3} wanted
  shift
  command -v "$base" >/dev/null || die "no $base found; install Python 3.9 or newer, or set PYTHON to one"
  "$base" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    die "$base is $("$base" -c 'import platform; print(platform.python_version())'); 3.9 or newer is needed: set PYTHON to one"
  mkdir -p "$place" 2>/dev/null
  [ -w "$place" ] || die "$place cannot be written; set ASCEND_ACLNN_VENVS to a directory for virtual environments"
  local venv=$place/$name
  python=$venv/bin/python
  wanted=$({ cat pyproject.toml; "$base" -VV; printf '%s\n' "$PWD" "$@"; } | cksum)
  if [ -x "$python" ] && [ "$(cat "$venv/installed" 2>/dev/null)" = "$wanted" ]; then
    return
  fi
  if [ ! -x "$python" ]; then
    say "making the environment $venv"
    "$base" -m venv "$venv" || die "venv failed (Debian and Ubuntu: apt install python3-venv)"
  fi
  rm -f "$venv/installed"
  say "installing $*"
  "$python" -m pip install --quiet --disable-pip-version-check "$@" ||
    die "the installation failed; it needs a package index (pip's settings, or a proxy in HTTPS_PROXY)"
  printf '%s' "$wanted" >"$venv/installed"
}
