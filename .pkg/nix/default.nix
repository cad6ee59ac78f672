# nix-build -E '(import <nixpkgs> {}).callPackage ./default.nix {}'
{
  lib,
  stdenv,
  fetchurl,
  meson,
  ninja,
  pkg-config,
  python3,
  cjson,
  hiredis,
  libmicrohttpd,
  libuv,
  openssl,
}:

stdenv.mkDerivation (finalAttrs: {
  pname = "librql";
  version = "0.2.0";

  src = fetchurl {
    url = "https://librql.example.org/librql-${finalAttrs.version}.tar.xz";
    sha256 = "@SHA256@";
  };

  outputs = [ "out" "dev" "man" ];

  nativeBuildInputs = [ meson ninja pkg-config python3 ];
  buildInputs = [ cjson libmicrohttpd ];
  propagatedBuildInputs = [ hiredis libuv openssl ]; # rql.pc names them

  # The build runs scripts of these folders, and there is no /usr/bin/env.
  postPatch = "patchShebangs --build include lua src";

  # Without units: in NixOS a module has them.
  mesonFlags = [
    "-Dtls=enabled"
    "-Dserve=enabled"
    "-Dprogram=enabled"
    "-Dsystemd=disabled"
    "-Dtests=disabled"
  ];

  meta = {
    description = "Fair distributed locks on Redis and Valkey: program and library";
    homepage = "https://librql.example.org";
    license = lib.licenses.mit;
    mainProgram = "rql";
    platforms = lib.platforms.linux;
  };
})
