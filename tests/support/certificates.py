"""Certificates for tests, made by the program openssl. Standard library only."""
import atexit
import functools
import pathlib
import shutil
import subprocess
import tempfile
import threading


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdin=subprocess.DEVNULL, capture_output=True)


class Authority:
    """One that vouches for others, in a folder of its own that ends with the program."""

    def __init__(self, name="authority", kind="ec"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rql-test-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.kind = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else ["rsa:2048"]
        self.file, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        openssl("req", "-x509", "-newkey", *self.kind, "-nodes", "-days", 30, "-subj", f"/CN={name}",
                "-keyout", self.key, "-out", self.file)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", dates=()):
        """Certificate and key of `name`, both files; `dates`: -startdate and -enddate. Several at once."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        key, request, made, said = (folder / f"{name}.{end}" for end in ("key", "csr", "crt", "cnf"))
        said.write_text("[ca]\ndefault_ca=this\n[this]\ndatabase=%s/index\nserial=%s/serial\nnew_certs_dir=%s\n"
                        "default_md=sha256\npolicy=any\nunique_subject=no\ncopy_extensions=none\n"
                        "[any]\ncommonName=supplied\n[said]\nsubjectAltName=%s\n"
                        % (folder, folder, folder, names))
        (folder / "index").touch()
        openssl("req", "-newkey", *self.kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("ca", "-batch", "-notext", "-create_serial", "-config", said, "-extensions", "said", "-cert", self.file,
                "-keyfile", self.key, "-in", request, "-out", made, *(dates or ("-days", 30)))
        return made, key


MUTEX = threading.Lock()


@functools.cache
def made_once():
    made = Authority()
    made.server = made.issue("localhost")
    return made


def authority():
    """The one that most tests trust, with the certificate of its server. Callable from any thread."""
    with MUTEX:
        return made_once()
