class Rql < Formula
  desc "Fair distributed locks on Redis and Valkey: program and library"
  homepage "https://librql.example.org"
  url "https://librql.example.org/librql-0.2.0.tar.xz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "python@3.13" => :build
  depends_on "cjson"
  depends_on "hiredis"
  depends_on "libmicrohttpd"
  depends_on "libuv"
  depends_on :linux
  depends_on "openssl@3"

  def install
    args = %w[-Dtls=enabled -Dserve=enabled -Dprogram=enabled -Dsystemd=disabled -Dtests=disabled]
    system "meson", "setup", "build", *args, *std_meson_args
    system "meson", "compile", "-C", "build", "--verbose"
    system "meson", "install", "-C", "build"
  end

  test do
    assert_equal "rql #{version}", shell_output("#{bin}/rql --version").strip
  end
end
