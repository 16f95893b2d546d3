// The variables in the symbol table of a library's or a program's file: the loader knows only what others may use.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "state.h"

namespace cuda_on_cpu {

namespace {
class File {
public:
    explicit File(const char* path) {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat about;
        if (file >= 0 && fstat(file, &about) == 0) bytes = size_t(about.st_size);
        void* all = bytes ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
        if (all != MAP_FAILED) begin = static_cast<const char*>(all);
        if (file >= 0) close(file);
    }
    ~File() {
        if (begin) munmap(const_cast<char*>(begin), bytes);
    }
    File(const File&) = delete;
    template <class T>
    const T* at(size_t offset, size_t count = 1) const {
        const bool fits = begin && offset <= bytes && count <= (bytes - offset) / sizeof(T);
        return fits ? reinterpret_cast<const T*>(begin + offset) : nullptr;
    }

private:
    const char* begin = nullptr;
    size_t bytes = 0;
};
}  // namespace

std::vector<Symbol> variables_in_file(const char* path, uintptr_t loaded_at) {
    std::vector<Symbol> found;
    const File file(path);
    const auto* head = file.at<ElfW(Ehdr)>(0);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG)) return found;
    const uintptr_t base = head->e_type == ET_EXEC ? 0 : loaded_at;
    const auto* sections = file.at<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
    for (size_t i = 0; sections && i < head->e_shnum; i++) {
        const ElfW(Shdr)& table = sections[i];
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= head->e_shnum) continue;
        const ElfW(Shdr)& names = sections[table.sh_link];
        const size_t count = table.sh_size / sizeof(ElfW(Sym));
        const auto* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
        const char* texts = file.at<char>(names.sh_offset, names.sh_size);
        for (size_t k = 0; symbols && texts && k < count; k++) {
            const ElfW(Sym)& symbol = symbols[k];
            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !symbol.st_size || symbol.st_name >= names.sh_size) continue;
            std::string name = texts + symbol.st_name;
            const bool of_system = name.starts_with("__") || name == "_IO_stdin_used" || name.starts_with("DW.ref.");
            if (name.find("cuda_on_cpu") != std::string::npos || of_system) continue;
            std::string table_of = name.starts_with("_ZTV") ? "_Z" + name.substr(4) : "";
            if (name.starts_with("_ZT")) name.clear();           // the compiler's, of a class: a virtual call reads it
            name.resize(std::min(name.find('.'), name.size()));  // `count.0`, of a function
            found.push_back({base + symbol.st_value, symbol.st_size, std::move(name), std::move(table_of)});
        }
    }
    std::sort(found.begin(), found.end(), [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
    return found;
}

}  // namespace cuda_on_cpu
