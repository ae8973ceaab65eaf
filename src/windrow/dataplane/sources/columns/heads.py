"""Opens a source's files in the driver, to read how they begin: by Python where they are local, else by Hadoop."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from windrow.errors import first_line

UNREADABLE = (OSError, EOFError, zlib.error)
"""What a file that cannot be opened or unpacked raises. The job that reads it reports it."""

_UNPACK: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_PACKED_FOR_HADOOP = (".deflate", ".lz4", ".snappy", ".zst", ".zstd")


def read_head(spark: SparkSession, uri: str, size: int) -> bytes:
    """The first bytes of a text file, unpacked. Raises one of UNREADABLE."""
    path = _local_path(uri)
    if path is None or path.suffix.lower() in _PACKED_FOR_HADOOP:
        with _HadoopFile(spark, uri, unpack=True) as remote:
            return remote.read(size)
    _check_regular(path)
    with _UNPACK.get(path.suffix.lower(), open)(path, "rb") as local:
        head: bytes = local.read(size)
        return head


def open_file(spark: SparkSession, uri: str) -> BinaryIO:
    """A file for random access. Raises one of UNREADABLE."""
    path = _local_path(uri)
    if path is None:
        return _HadoopFile(spark, uri, unpack=False)  # type: ignore[return-value]
    _check_regular(path)
    return path.open("rb")


def _check_regular(path: Path) -> None:
    """Raise OSError for a pipe or a device: opening it would wait for a writer."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file")


def _local_path(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise OSError for any error of the JVM."""
    try:
        yield
    except Exception as error:
        raise OSError(first_line(error)) from error


class _HadoopFile(io.RawIOBase):
    """A file of any file system that Spark reads. Few and large reads: each is a call to the JVM."""

    def __init__(self, spark: SparkSession, uri: str, unpack: bool):
        jvm: Any = spark._jvm
        hadoop, conf = jvm.org.apache.hadoop, spark._jsparkSession.sessionState().newHadoopConf()
        with _as_os_error():
            path = hadoop.fs.Path(jvm.java.net.URI(uri))
            files = path.getFileSystem(conf)
            self._size, self._at = int(files.getFileStatus(path).getLen()), 0
            self._stream: Any = files.open(path)
            codec = hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path) if unpack else None
            if codec is not None:
                self._stream = codec.createInputStream(self._stream)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with _as_os_error():
            found = bytes(self._stream.readNBytes(self._size - self._at if size < 0 else size))
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._stream.seek(self._at)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
