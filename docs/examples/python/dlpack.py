#!/usr/bin/env python3
"""Symmetric tensors as NumPy arrays and torch tensors and back, with ctypes and DLPack alone.

    symm-run --emulated -n 3 python3 dlpack.py      without a GPU: NumPy arrays
    symm-run -n 4 python3 dlpack.py                 on GPUs: torch tensors (torchrun does, too)

Each rank makes a symmetric tensor, sees it as its library's tensor without a copy, fills it, sums it over the ranks
with symm_all_reduce() and compares with the sum in double precision. Then a tensor that symm has not made goes the
other way. libsymm.so is the one that SYMM_LIBRARY names, else the one that the loader finds (LD_LIBRARY_PATH).
Ends with 77 when the library for its tensors is missing.
"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p

SKIP = 77
MAX_DIMS = 5
SYMM_VERSION = 100
FLOAT32, FLOAT16, BFLOAT16 = 1, 2, 3  # symm_dtype
SUM = 0  # symm_redop
LEND, GIVE = 0, 1  # symm_dlpack_mode
# How far a sum may be off, relative to itself, or to 1 where that is less.
BOUND = {FLOAT32: 2.0 ** -20, FLOAT16: 2.0 ** -10, BFLOAT16: 2.0 ** -7}


class Tensor(ctypes.Structure):  # symm_tensor
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("ndim", c_int32), ("shape", c_int64 * MAX_DIMS),
                ("strides", c_int64 * MAX_DIMS)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int), ("device_id", c_int), ("ndim", c_int), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", ctypes.CFUNCTYPE(None, c_void_p))]


class Usage(ctypes.Structure):  # symm_usage
    _fields_ = [(name, c_uint64) for name in ("window", "segments", "nsegments", "allocated", "requested", "pending",
                                              "internal")] + [("reserved", c_uint64 * 9)]


# ------------------------------------------------------------------------------------------------------------ capsules

CAPSULE = b"dltensor"  # a reader renames the capsule that it has taken over
python = ctypes.pythonapi
DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [c_void_p, c_char_p, DESTRUCTOR]
# The destructor's capsule has no references left, so it goes as an address and never becomes a Python object.
python.PyCapsule_IsValid.argtypes = [c_void_p, c_char_p]
python.PyCapsule_GetPointer.restype = c_void_p
python.PyCapsule_GetPointer.argtypes = [c_void_p, c_char_p]


@DESTRUCTOR
def delete_unread(capsule):
    """Nobody has read the capsule: the managed tensor in it is still ours to delete."""
    if python.PyCapsule_IsValid(capsule, CAPSULE):
        managed = python.PyCapsule_GetPointer(capsule, CAPSULE)
        DLManagedTensor.from_address(managed).deleter(managed)


class Exporter:
    """What from_dlpack() of any library wants: an object with these two methods. It can be read once."""

    def __init__(self, managed):
        self.capsule = python.PyCapsule_New(managed, CAPSULE, delete_unread)
        tensor = DLManagedTensor.from_address(managed).tensor
        self.device = (tensor.device_type, tensor.device_id)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        # `stream` must see what was written before. All work of this program is on the reader's stream anyway.
        capsule, self.capsule = self.capsule, None
        return capsule


# ---------------------------------------------------------------------------------------------------------------- symm

class Failure(Exception):
    pass


class Symm:
    """The calls of libsymm that this program makes. Collective ones are for all ranks."""

    def __init__(self):
        self.lib = ctypes.CDLL(os.environ.get("SYMM_LIBRARY") or "libsymm.so.0")
        self.lib.symm_error_text.restype = c_char_p
        self.lib.symm_context_world.restype = c_void_p
        self.lib.symm_context_driver.restype = c_char_p
        self.lib.symm_peer.restype = c_void_p
        self.ctx = c_void_p()
        self.call("symm_context_create_v", None, c_uint32(SYMM_VERSION), byref(self.ctx))
        self.world = c_void_p(self.lib.symm_context_world(self.ctx))
        self.rank = self.lib.symm_rank(self.world)
        self.nranks = self.lib.symm_nranks(self.world)
        self.driver = self.lib.symm_context_driver(self.ctx).decode()

    def call(self, name, *args):
        if getattr(self.lib, name)(*args):
            raise Failure(f"{name}: {self.lib.symm_error_text().decode()}")

    def tensor(self, dtype, *shape):
        """A symmetric tensor. Collective."""
        out = Tensor()
        self.call("symm_tensor_alloc", self.world, dtype, len(shape), (c_int64 * len(shape))(*shape), byref(out))
        return out

    def to_dlpack(self, tensor, mode):
        managed = c_void_p()
        self.call("symm_tensor_to_dlpack", self.world, byref(tensor), mode, byref(managed))
        return Exporter(managed.value)

    def from_dlpack(self, capsule):
        """The capsule must live as long as what this returns is used."""
        out = Tensor()
        managed = python.PyCapsule_GetPointer(id(capsule), CAPSULE)
        self.call("symm_tensor_from_dlpack", self.world, c_void_p(managed), byref(out))
        return out

    def all_reduce(self, source, target, count, stream):
        self.call("symm_all_reduce", self.world, c_void_p(source.data), c_void_p(target.data), c_size_t(count),
                  target.dtype, SUM, None, c_void_p(stream))

    def exchange(self, mine):
        """The bytes of all ranks, rank by rank, over the host. Collective."""
        everyone = ctypes.create_string_buffer(len(mine) * self.nranks)
        self.call("symm_exchange", self.world, mine, c_size_t(len(mine)), everyone)
        return everyone.raw

    def requested(self):
        """The bytes of live allocations."""
        usage = Usage()
        self.call("symm_memory_usage", self.ctx, byref(usage))
        return usage.requested


# ------------------------------------------------------------------------------------------------- NumPy and PyTorch

class NumPy:
    """Arrays on the host: what the emulated driver's memory is."""

    name, dtypes, stream = "numpy array", {FLOAT32: "float32", FLOAT16: "float16"}, None

    def __init__(self):
        import numpy
        self.np = numpy
        # NumPy's own arrays are no device memory: the emulated devices must share the host's page tables.
        os.environ.setdefault("SYMM_EMULATED_PAGEABLE", "1")

    def from_dlpack(self, exporter):
        return self.np.from_dlpack(exporter)

    def address(self, array):
        return array.ctypes.data

    def fill(self, array, address):
        """NumPy's from_dlpack() may give an array that cannot be written, so the bytes go in by the address."""
        values = self.random(array.dtype, array.shape)
        ctypes.memmove(address, values.ctypes.data, values.nbytes)

    def random(self, dtype, shape):
        return self.np.random.default_rng().standard_normal(shape).astype(dtype)

    def bytes(self, array):
        return array.tobytes()

    def capsule(self, array):
        return array.__dlpack__()

    def sum(self, everyone, like, nranks):
        """The sum over the ranks, in double precision."""
        return self.np.frombuffer(everyone, like.dtype).reshape(nranks, *like.shape).astype("float64").sum(0)

    def worst(self, array, expected):
        """The largest error, relative to the sum or to 1 where that is less."""
        return float((abs(array.astype("float64") - expected) / self.np.maximum(abs(expected), 1)).max())


class Torch:
    """Tensors on this rank's GPU."""

    name = "torch tensor"

    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU; symm-run --emulated needs none")
        self.torch = torch
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        torch.empty(1, device="cuda")  # makes the device's context current, which symm then takes
        self.dtypes = {FLOAT32: torch.float32, BFLOAT16: torch.bfloat16}

    @property
    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def from_dlpack(self, exporter):
        return self.torch.from_dlpack(exporter)

    def address(self, tensor):
        return tensor.data_ptr()

    def fill(self, tensor, _):
        tensor.copy_(self.random(tensor.dtype, tensor.shape))

    def random(self, dtype, shape):
        generator = self.torch.Generator(device="cuda")
        generator.seed()
        return self.torch.randn(*shape, dtype=dtype, device="cuda", generator=generator)

    def bytes(self, tensor):
        return bytes(tensor.contiguous().view(self.torch.uint8).cpu().flatten().tolist())

    def capsule(self, tensor):
        return self.torch.utils.dlpack.to_dlpack(tensor)

    def sum(self, everyone, like, nranks):
        parts = self.torch.frombuffer(bytearray(everyone), dtype=like.dtype).reshape(nranks, *like.shape)
        return parts.double().sum(0).cuda()

    def worst(self, tensor, expected):
        return float(((tensor.double() - expected).abs() / expected.abs().clamp(min=1)).max())


# ---------------------------------------------------------------------------------------------------------- the program

def check(condition, what):
    if not condition:
        raise Failure(what)


def sum_in_place(symm, arrays, dtype):
    """A symmetric tensor that the other library sees, fills, and at the end frees."""
    before = symm.requested()
    tensor = symm.tensor(dtype, 57, 1001)
    array = arrays.from_dlpack(symm.to_dlpack(tensor, GIVE))
    check(arrays.address(array) == tensor.data and tuple(array.shape) == (57, 1001), "not the same memory")
    arrays.fill(array, tensor.data)
    expected = arrays.sum(symm.exchange(arrays.bytes(array)), array, symm.nranks)
    symm.all_reduce(tensor, tensor, 57 * 1001, arrays.stream)
    symm.call("symm_synchronize", symm.world, c_void_p(arrays.stream))
    worst = arrays.worst(array, expected)
    check(worst <= BOUND[dtype], f"the sum is off by {worst}")

    # Another rank's copy is a tensor, too; all have the same sum.
    symm.call("symm_exchange", symm.world, None, c_size_t(0), None)
    theirs = Tensor.from_buffer_copy(tensor)
    theirs.data = symm.lib.symm_peer(symm.world, c_void_p(tensor.data), (symm.rank + 1) % symm.nranks)
    peer = arrays.from_dlpack(symm.to_dlpack(theirs, LEND))
    check(arrays.bytes(peer) == arrays.bytes(array), "the next rank has another sum")
    symm.call("symm_exchange", symm.world, None, c_size_t(0), None)

    unread = symm.to_dlpack(tensor, LEND)
    del unread, peer
    check(symm.requested() > before, "views must not free")
    del array
    check(symm.requested() == before, "the last reader has let go, and the memory is not free")


def sum_of_theirs(symm, arrays, dtype):
    """A tensor of the other library goes into symm: strides, offset and all."""
    whole = arrays.random(arrays.dtypes[dtype], (64, 300))
    part = whole[3:60:2, 100:]
    capsule = arrays.capsule(part)
    tensor = symm.from_dlpack(capsule)
    check(tensor.data == arrays.address(part), "not the same address")
    check((tensor.ndim, tensor.dtype, *tensor.shape[:2], *tensor.strides[:2]) == (2, dtype, 29, 200, 600, 1),
          "another shape")
    del capsule

    capsule = arrays.capsule(whole)
    source, target = symm.from_dlpack(capsule), symm.tensor(dtype, 64, 300)
    expected = arrays.sum(symm.exchange(arrays.bytes(whole)), whole, symm.nranks)
    symm.all_reduce(source, target, 64 * 300, arrays.stream)
    symm.call("symm_synchronize", symm.world, c_void_p(arrays.stream))
    worst = arrays.worst(arrays.from_dlpack(symm.to_dlpack(target, LEND)), expected)
    check(worst <= BOUND[dtype], f"the sum of their tensor is off by {worst}")
    symm.call("symm_free", symm.world, c_void_p(target.data))


def main():
    emulated = os.environ.get("SYMM_DRIVER") == "emulated"
    try:
        arrays = NumPy() if emulated else Torch()
    except ImportError as missing:
        print(f"skipped: {missing}")
        return SKIP
    symm = Symm()
    try:
        for dtype in arrays.dtypes:
            sum_in_place(symm, arrays, dtype)
            sum_of_theirs(symm, arrays, dtype)
        late = arrays.from_dlpack(symm.to_dlpack(symm.tensor(FLOAT32, 4), GIVE))
        symm.call("symm_context_destroy", symm.ctx)
        del late  # its memory went with the context; its deleter knows
    except Failure as failure:
        print(f"rank {symm.rank} of {symm.nranks}: {failure}", file=sys.stderr)
        return 1
    print(f"rank {symm.rank} of {symm.nranks}: {arrays.name} and symmetric memory are the same bytes; sum right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
