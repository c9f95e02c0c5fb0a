/* Ranges of addresses that do not overlap, in order. To find, insert and remove one takes little time even among a million. */
#ifndef EMU_EXTENTS_H
#define EMU_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

/* The first member of whatever is kept by its addresses. */
typedef struct {
    uint64_t start, end;
} emu_extent;

#define EMU_LEAF 128u

/* Neighbours. */
typedef struct {
    size_t count;
    uint64_t ends[EMU_LEAF]; /* of each: a search reads nothing else */
    emu_extent *extents[EMU_LEAF];
} emu_leaf;

typedef struct {
    size_t leaf, at;
} emu_position;

typedef struct {
    emu_leaf **leaves;       /* none is empty */
    uint64_t *ends;          /* the last one of each leaf */
    size_t count, room;
    emu_position searched;   /* where the last search ended */
} emu_extents;

/* The first extent that ends after an address. */
emu_position emu_extents_after(emu_extents *extents, uint64_t address);
/* Puts an extent before the one at a position, and gives its own. Other positions are worth nothing afterwards. */
emu_position emu_extents_insert(emu_extents *extents, emu_position position, emu_extent *extent);
/* Takes some extents out, from a position on; the one behind them is there then. */
emu_position emu_extents_erase(emu_extents *extents, emu_position position, size_t count);

/* NULL: behind the last one. */
static inline emu_extent *emu_extent_at(const emu_extents *extents, emu_position position) {
    return position.leaf < extents->count ? extents->leaves[position.leaf]->extents[position.at] : NULL;
}

static inline emu_position emu_extent_next(const emu_extents *extents, emu_position position) {
    if (position.at + 1 < extents->leaves[position.leaf]->count) return (emu_position){position.leaf, position.at + 1};
    return (emu_position){position.leaf + 1, 0};
}

/* It stays before the next one. */
static inline void emu_extent_set_end(emu_extents *extents, emu_position position, uint64_t end) {
    emu_leaf *leaf = extents->leaves[position.leaf];
    leaf->extents[position.at]->end = leaf->ends[position.at] = end;
    extents->ends[position.leaf] = leaf->ends[leaf->count - 1];
}

#endif
