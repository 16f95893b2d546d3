// How blocks that one worker runs side by side take turns: those of a cluster, or all that it has of a cooperative launch.
#pragma once

#include "runtime.h"

namespace cuda_on_cpu {

struct Turns {
    std::vector<Block*> blocks;
    bool stuck = false;  // no thread of any block can go on: the block that runs next says why
};

// Whether block `b`, none of whose threads is ready, lets the others run first; and whether it then waits for them, where
// it could not let any thread go on either.
bool others_come_first(Block& b);
bool others_may_help(const Block& b);

// Runs these blocks until each has ended or waits for the grid; calls `goes_on(block)` after each turn, and stops if it
// returns false. Returns the block that was left because of a fault or an interruption; nullptr if there was none.
Block* take_turns(Worker& w, Turns& turns, const std::function<bool(Block&)>& goes_on);

}  // namespace cuda_on_cpu
