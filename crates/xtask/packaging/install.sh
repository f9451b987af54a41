#!/bin/sh
# Installs dyno from the directory of this script: the program, its manual pages and its shell completions.
# Usage: install.sh [--prefix DIR] [--uninstall]    (the default prefix is ~/.local; root uses /usr/local)
set -eu

# With CDPATH, cd prints the folder.
unset CDPATH
from=$(cd "$(dirname "$0")" && pwd)
prefix=
uninstall=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --prefix=*)
            case $1 in
                *=*) prefix=${1#--prefix=} ;;
                *) prefix=${2-}; [ $# -lt 2 ] || shift ;;
            esac
            [ -n "$prefix" ] || { echo "install.sh: --prefix needs a directory" >&2; exit 2; }
            shift
            ;;
        --uninstall) uninstall=1; shift ;;
        -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
        *) echo "install.sh: unknown argument $1; see install.sh --help" >&2; exit 2 ;;
    esac
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

bash=$prefix/share/bash-completion/completions
zsh=$prefix/share/zsh/site-functions
fish=$prefix/share/fish/vendor_completions.d
man=$prefix/share/man/man1

if [ -n "$uninstall" ]; then
    rm -f "$prefix/bin/dyno" "$bash/dyno" "$zsh/_dyno" "$fish/dyno.fish"
    for page in "$from"/man/man1/*.1; do
        rm -f "$man/$(basename "$page")"
    done
    echo "removed dyno from $prefix; downloaded models are in ~/.cache/dyno"
    exit 0
fi

mkdir -p "$prefix/bin" "$bash" "$zsh" "$fish" "$man"
# A running program cannot be overwritten, but it can be replaced.
cp "$from/dyno" "$prefix/bin/.dyno.new"
chmod 755 "$prefix/bin/.dyno.new"
mv -f "$prefix/bin/.dyno.new" "$prefix/bin/dyno"
cp "$from/completions/dyno.bash" "$bash/dyno"
cp "$from/completions/dyno.zsh" "$zsh/_dyno"
cp "$from/completions/dyno.fish" "$fish/dyno.fish"
cp "$from"/man/man1/*.1 "$man/"

version=$("$prefix/bin/dyno" --version)
echo "installed $version in $prefix"
case :$PATH: in
    *:"$prefix/bin":*) echo "start with: dyno run" ;;
    *) echo "start with: '$prefix/bin/dyno' run    (or add $prefix/bin to PATH)" ;;
esac
echo "remove it with: '$from/install.sh' --prefix '$prefix' --uninstall"
