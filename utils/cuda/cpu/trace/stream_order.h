// Which work of streams races: two kernels or copies of two streams that touch the same bytes, where at least one writes,
// they are not both atomic, and neither stream waits for the other, nor the host between the two.
//
// Work has numbers that grow. Each stream knows, by stream, the last work that comes before its next; so does the host,
// of what it has waited for. The legacy stream waits for all others and all for it, except those that were made not to.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "shadow.h"
#include "trace.h"

namespace cuda_on_cpu {

struct StreamCell {  // the work that has touched 4 bytes last, and which of them
    uint32_t write = 0, atomic = 0, read[2] = {0, 0};
    unsigned char write_mask = 0, atomic_mask = 0, read_mask[2] = {0, 0};
};

// The cells of some bytes. Pages are taken from the system when touched.
class StreamCells {
public:
    explicit StreamCells(size_t bytes);
    StreamCells(const StreamCells&) = delete;
    ~StreamCells();
    // Calls `each` for every cell of these bytes, with which of its bytes they are.
    template <class Each>
    void each(size_t offset, size_t bytes, Each each) const {
        for (size_t at = offset, end = offset + bytes; cells && at < end; at = at / 4 * 4 + 4) {
            const size_t last = std::min<size_t>(4, end - at / 4 * 4);
            each(cells[at / 4], static_cast<unsigned char>((1u << last) - (1u << at % 4)));
        }
    }

private:
    size_t count;
    StreamCell* cells;
};

class StreamOrder {
public:
    struct Work {
        StreamId stream;
        StreamTimes before;
        std::string name;
        uintptr_t code;  // of the host, where it began
    };
    uint32_t current = 0;  // work; 0: none

    void begin(StreamId stream, std::string name, uintptr_t code);
    StreamTimes times_of(StreamId stream) const;
    void stream_waits(StreamId stream, const StreamTimes& times);
    void host_waits(const StreamTimes& times);
    void host_waits_for_all();
    const Work& work(uint32_t number) const { return all[number - 1]; }
    // Whether the host has waited for the last that has written these bytes.
    bool host_knows(const StreamCells& cells, size_t offset, size_t bytes) const;
    // Notes that the current work touches these bytes; earlier work that it races with, or 0, and what that does there.
    std::pair<uint32_t, Op> touch(const StreamCells& cells, size_t offset, size_t bytes, Op op);

private:
    std::deque<Work> all;
    std::map<unsigned int, std::pair<StreamId, StreamTimes>> known;  // by stream
    StreamTimes of_host;

    bool races(uint32_t earlier, unsigned char touched, unsigned char mask) const;
};

}  // namespace cuda_on_cpu
