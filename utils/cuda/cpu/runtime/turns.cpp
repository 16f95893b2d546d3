// Blocks that take turns (turns.h). Read `take_turns` first, which launch.cpp calls.
#include "turns.h"

#include <utility>

namespace cuda_on_cpu {

static bool can_go_on(const Block& b) { return b.ready.first || b.started < b.threads; }

bool others_may_help(const Block& b) { return b.turns && b.turns->blocks.size() > 1 && !b.turns->stuck; }

bool others_come_first(Block& b) { return others_may_help(b) && !std::exchange(b.its_turn, false); }

// Runs a block; false if it stays where it is.
static bool take_turn(Worker& w, Block& b, Block*& left) {
    const End end = run_block(w, b);
    if (end == End::left) left = &b;
    b.done = end == End::done || end == End::left;
    b.waits_for_grid = end == End::at_grid;
    return end != End::in_vain;
}

Block* take_turns(Worker& w, Turns& turns, const std::function<bool(Block&)>& goes_on) {
    Block* left = nullptr;
    for (;;) {
        bool any = false, waits = false;
        for (Block* b : turns.blocks) {
            if (b->done || !can_go_on(*b)) continue;
            any = true;
            take_turn(w, *b, left);
            if (!goes_on(*b) || left) return left;
        }
        if (any) continue;
        // Threads that ask again and again, or that wait until no other can go on: those of one block after the other.
        for (Block* b : turns.blocks) {
            if (b->done || b->waits_for_grid) continue;
            waits = b->its_turn = true;
            any |= take_turn(w, *b, left);
            b->its_turn = false;
            if (!goes_on(*b) || left) return left;
        }
        if (!waits) return nullptr;
        turns.stuck |= !any;
    }
}

}  // namespace cuda_on_cpu
