// What a kernel takes on the GPU that the engine behaves like: nvcc, which judges each text, has noted it beside the build
// (utils/cuda/gpu/judging.py).
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "resources.h"
#include "../runtime/runtime.h"

namespace cuda_on_cpu {

// The mangled name of a kernel, alike for g++ and nvcc: without whether only its file sees it (_ZL4kernel; nvcc writes
// __nv_static_..._Z4kernel if there are several files), and with one name for the namespace that has none.
static std::string alike(std::string name) {
    if (name.starts_with("_ZL")) name.erase(2, 1);
    if (name.starts_with("__nv_static_")) name.erase(0, name.find("__Z") + 1);
    const size_t at = name.find("_GLOBAL__N_");
    size_t digits = at == std::string::npos ? 0 : at;
    while (digits && isdigit(static_cast<unsigned char>(name[digits - 1]))) digits--;
    if (digits < at && at != std::string::npos) name.replace(digits, at - digits + std::stoul(name.substr(digits, at)), "?");
    return name;
}

struct Known {
    std::map<std::string, Resources> taken;  // by name
    std::map<uintptr_t, std::string> names;  // of functions by their address in the file
};

static bool read_resources(Known& known, const std::string& folder) {
    std::ifstream file(folder + "/resources.txt");
    std::string name;
    for (Resources r; file >> name >> r.registers >> r.shared_bytes >> r.local_bytes >> r.most_threads;) {
        auto [of_name, is_new] = known.taken.try_emplace(alike(name), r);
        if (!is_new && of_name->second != r) of_name->second = {};  // two files have one of this name: which is it?
    }
    return file.is_open();
}

// From the file's table of all symbols: dladdr knows only those that other files see.
static void read_names(Known& known, const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(all.data());
    if (all.size() < sizeof *header || std::string_view(all.data(), SELFMAG) != ELFMAG) return;
    if (header->e_shoff + header->e_shnum * sizeof(ElfW(Shdr)) > all.size()) return;
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(all.data() + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const auto& table = sections[i];
        if (table.sh_type != SHT_SYMTAB || table.sh_offset + table.sh_size > all.size()) continue;
        const char* text = all.data() + sections[table.sh_link].sh_offset;
        const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(all.data() + table.sh_offset);
        for (size_t k = 0; k < table.sh_size / sizeof *symbols; k++) {
            const std::string name = text + symbols[k].st_name;  // f.localalias is the compiler's own
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && name.find('.') == std::string::npos)
                known.names.try_emplace(symbols[k].st_value, alike(name));
        }
    }
}

// About the library, or the program, at this path.
static const Known& known_of(const std::string& path) {
    static Mutex mutex;
    static auto& all = *new std::map<std::string, Known>;
    std::lock_guard lock(mutex);
    auto [place, is_new] = all.try_emplace(path);
    if (!is_new) return place->second;
    const std::string folder = path.substr(0, path.rfind('/'));
    bool found = read_resources(place->second, folder);
    for (int file = 0; read_resources(place->second, folder + "/judge_" + std::to_string(file)); file++) found = true;
    if (found) read_names(place->second, path);
    return place->second;
}

std::optional<Resources> resources(const void* kernel) {
    Dl_info info;
    link_map* module = nullptr;
    if (!kernel || !dladdr1(kernel, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) || !info.dli_fname) return {};
    const Known& known = known_of(info.dli_fname);
    const auto name = known.names.find(reinterpret_cast<uintptr_t>(kernel) - module->l_addr);
    if (name == known.names.end()) return {};
    const auto found = known.taken.find(name->second);
    return found == known.taken.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace cuda_on_cpu
