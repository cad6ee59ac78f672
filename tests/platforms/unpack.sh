#!/bin/sh
# Packages of Debian 12, of any architecture, unpacked into a folder, without what they depend on.
#
# Usage: unpack.sh FOLDER PACKAGE...    PACKAGE: as for .pkg/static/fetch; nothing is done if the folder has just these
#
# The last line is the folder. Exit status: 0 they are there, 3 one is not.
set -eu

folder=${1:?Usage: unpack.sh FOLDER PACKAGE...}
shift
if [ "$(cat "$folder/made-with" 2>/dev/null)" != "$*" ]; then
    rm -rf "$folder" "$folder.debs"
    mkdir -p "$folder"
    "$(dirname "$0")/../../.pkg/static/fetch" "$folder.debs" "$@" || {
        echo "unpack.sh: packages that are not there: $*"
        exit 3
    }
    for file in "$folder.debs"/*.deb; do
        dpkg-deb -x "$file" "$folder"
    done
    rm -rf "$folder.debs"
    echo "$*" >"$folder/made-with"
fi
echo "$folder"
