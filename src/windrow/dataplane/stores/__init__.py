"""Window stores: the tuples of a stream that continuous plans read, in files that a reader maps.

No pyspark here: Spark tasks write and read these files, and so does the driver.
"""

from windrow.dataplane.stores.files import POINT, KeptFile, MappedStoreFile, merged, write_rows
from windrow.dataplane.stores.pinned import PinnedFiles
from windrow.dataplane.stores.reading import MappedFiles, Selected, StoredRows, read_rows
from windrow.dataplane.stores.specs import ARRIVAL, KeptColumn, PackedFlags, ReadColumn, WindowStoreSpec
from windrow.dataplane.stores.window_source import WindowSource

__all__ = [
    "ARRIVAL",
    "POINT",
    "KeptColumn",
    "KeptFile",
    "MappedFiles",
    "MappedStoreFile",
    "PackedFlags",
    "PinnedFiles",
    "ReadColumn",
    "Selected",
    "StoredRows",
    "WindowSource",
    "WindowStoreSpec",
    "merged",
    "read_rows",
    "write_rows",
]
