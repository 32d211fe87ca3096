from scheduler.core.identical cimport IdenticalNodes
from sil.world.core.loop cimport Replay

cdef class OnIdenticalNodes(Replay):
    cdef readonly IdenticalNodes nodes
