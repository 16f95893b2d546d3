// The report of a trace as JSON, which report.py reads.
#include <cstdio>

#include "state.h"

namespace cuda_on_cpu {

static const char* const space_names[] = {"global", "shared", "constant", "local"};
static const char* const op_names[] = {"load", "store", "atomic"};

static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 32)
            out += ' ';
        else
            out += c;
    }
    return out + '"';
}

static std::string triple(uint3 v) {
    return "[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]";
}

static std::string hex(uintptr_t v) {
    char text[32];
    snprintf(text, sizeof text, "\"0x%llx\"", (unsigned long long)v);
    return text;
}

// What the request of an asynchronous copy costs, and where in memory its lanes' words come from that go to shared
// memory; of rows of matrices, whether the lanes hold them as such.
static std::string copy_of(const Site& s) {
    if (s.copy && !is_copy(s.copy))
        return std::string(",\"matrices\":\"") + (s.copy == matrix_columns ? "transposed" : "rows") + "\"";
    if (!s.copy) return "";
    std::string out = ",\"cost_of_copy\":" + std::to_string(s.example.cost), words;
    if (s.space == Space::shared)
        for (unsigned int rest = s.example.lanes; rest; rest &= rest - 1)
            words += (words.empty() ? "" : ",") + std::to_string(s.example.other[__builtin_ctz(rest)]);
    return out + (words.empty() ? "" : ",\"from_words\":[" + words + "]");
}

static std::string acted(const Party& party) { return party.by ? ",\"by\":" + quoted(party.by) : ""; }

std::string Trace::json() const {
    std::string out = "{\"sites\":[";
    bool first = true;
    for (const Site& s : requests.sites) {
        if (!s.requests) continue;
        const std::string& name = s.name;
        uintptr_t base = s.base;
        out += first ? "" : ",";
        first = false;
        out += "{\"pc\":" + hex(s.code) + ",\"space\":\"" + space_names[int(s.space)] + "\",\"op\":\"" +
               op_names[int(s.op)] + "\",\"bytes\":" + std::to_string(s.bytes) +
               ",\"accesses\":" + std::to_string(s.accesses) + ",\"requests\":" + std::to_string(s.requests) +
               ",\"sectors\":" + std::to_string(s.sectors) + ",\"wavefronts\":" + std::to_string(s.wavefronts) +
               ",\"bank_conflicts\":" + std::to_string(s.wavefronts - s.least_wavefronts) +
               ",\"example\":{\"block\":" + triple(block_place(grid, s.example.block)) + ",\"warp\":" + std::to_string(s.example.warp) +
               ",\"region\":" + (name.empty() ? "null" : quoted(name)) + ",\"element\":" + std::to_string(s.element) +
               copy_of(s) +
               ",\"base_alignment\":" + std::to_string(base % 512) + ",\"lanes\":[";
        bool first_lane = true;
        for (unsigned int rest = s.example.lanes; rest; rest &= rest - 1) {
            int lane = __builtin_ctz(rest);
            out += (first_lane ? "[" : ",[") + std::to_string(lane) + "," +
                   std::to_string(int64_t(s.example.address[lane] - base)) + "]";
            first_lane = false;
        }
        out += "]}}";
    }
    out += "],\"problems\":[";
    first = true;
    for (const Problem& p : problems) {
        if (p.harmless) continue;
        out += first ? "{" : ",{";
        first = false;
        out += "\"kind\":\"" + p.kind + "\",\"pc\":" + hex(p.who.code) + ",\"op\":\"" + op_names[int(p.who.op)] +
               "\",\"bytes\":" + std::to_string(p.bytes) + ",\"block\":" + triple(p.who.block) +
               ",\"thread\":" + triple(p.who.thread) + ",\"space\":\"" + space_names[int(p.space)] +
               "\",\"region\":" + (p.in_region ? quoted(p.region) : "null") +
               ",\"region_bytes\":" + std::to_string(p.region_bytes) + ",\"element\":" + std::to_string(p.element) +
               ",\"offset\":" + std::to_string(p.offset) + ",\"count\":" + std::to_string(p.count) +
               ",\"text\":" + quoted(p.text) + acted(p.who);
        if (p.in_cluster) out += ",\"owner\":" + triple(p.owner);
        if (!p.origin.empty()) out += ",\"origin\":" + quoted(p.origin);
        if (p.allocated) out += ",\"allocated\":{\"pc\":" + hex(p.allocated) + "}";
        if (!p.ended.empty()) out += ",\"ended\":" + quoted(p.ended);
        if (p.line) out += ",\"line\":" + std::to_string(p.line);
        if (p.has_index) out += ",\"index\":" + std::to_string(p.index);
        if (!p.type.empty()) out += ",\"type\":" + quoted(p.type);
        if (p.needs) out += ",\"needs\":" + std::to_string(p.needs);
        if (p.full_heap) out += ",\"full_heap\":" + std::to_string(p.full_heap);
        if (p.has_other)
            out += ",\"other\":{\"pc\":" + hex(p.other.code) + ",\"op\":\"" + op_names[int(p.other.op)] +
                   "\",\"block\":" + triple(p.other.block) + ",\"thread\":" + triple(p.other.thread) +
                   ",\"left\":" + (p.other.left ? "true" : "false") +
                   (p.other.line ? ",\"line\":" + std::to_string(p.other.line) : "") +
                   (p.other.at ? ",\"text\":" + quoted(p.other.at) : "") + acted(p.other) + "}";
        if (p.apart) out += ",\"apart\":true";
        if (p.stuck) out += ",\"stuck\":true";
        if (p.under_way) out += ",\"under_way\":true";
        if (p.copied) out += ",\"copied\":true";
        if (p.one_block) out += ",\"one_block\":true";
        if (p.one_warp) out += ",\"one_warp\":true";
        if (p.of_block) out += ",\"of_block\":true";
        if (p.both_volatile) out += ",\"both_volatile\":true";
        if (p.unset) out += ",\"unset\":true";
        if (p.certain) out += ",\"certain\":true";
        if (p.depends) out += ",\"depends\":true";
        if (p.declared) out += ",\"declared\":" + std::to_string(p.declared);
        if (p.gone) out += ",\"gone\":" + quoted(p.gone);
        out += "}";
    }
    out += "],\"shared\":[";
    first = true;
    for (const auto& [name, type] : shared_types) {
        out += std::string(first ? "" : ",") + "{\"name\":" + quoted(name) + ",\"type\":" + quoted(type) + "}";
        first = false;
    }
    out += "]," + tiles.json([&](uint64_t number) { return triple(block_place(grid, number)); }) + "," + units.json();
    return out + ",\"total\":" + std::to_string(total) + ",\"threads\":" + std::to_string(threads) + "}";
}

}  // namespace cuda_on_cpu
