from scheduler.core.identical cimport IdenticalNodes
from sil.world.core.loop cimport Loop

cdef class LoopOnIdenticalNodes(Loop):
    cdef readonly IdenticalNodes nodes
