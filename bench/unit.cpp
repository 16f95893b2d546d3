// The unit of `python -m bench.build`: how long the C++ compiler takes for this file, and for nothing else.
#include <map>
#include <sstream>
#include <string>

std::map<std::string, int> count_words(const std::string& text) {
    std::map<std::string, int> counts;
    std::istringstream words(text);
    for (std::string word; words >> word;) ++counts[word];
    return counts;
}

std::string shown(const std::map<std::string, int>& counts) {
    std::ostringstream text;
    for (const auto& [word, count] : counts) text << word << ": " << count << '\n';
    return text.str();
}
