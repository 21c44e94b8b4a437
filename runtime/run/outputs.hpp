// Writes what a run makes: standard output, and files.
#pragma once

#include <filesystem>
#include <string>

namespace modelbuild {

// Makes writes that fail an error instead of a signal, and keeps files from taking the numbers of standard streams
// that the caller closed.
void prepare_streams();

// Writes text to standard output. Throws Error of kind kProgram if not all of it was written.
void print(const std::string& text);

// Writes a file; an existing file keeps its content until all of the new content is written. Throws Error of kind
// kProgram.
void write_file(const std::filesystem::path& path, const std::string& content);

// Returns the name of an output's file: characters that are not plain in a file's name are replaced.
std::string file_name(std::string output);

}  // namespace modelbuild
