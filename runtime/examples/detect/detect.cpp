// detect PROGRAM.pte PICTURE.ppm: prints the faces that the detector of examples/ finds in a picture.
#include <cstdio>
#include <fstream>
#include <modelbuild/runtime.hpp>

namespace {

struct Picture {
  std::vector<float> pixels;  // red, green and blue planes
  std::vector<std::int64_t> shape;
};

// Reads a binary PPM with 8 bits for each colour, as `convert photo.png photo.ppm` writes it.
Picture read_ppm(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  std::size_t width = 0, height = 0, most = 0;
  file >> magic >> width >> height >> most;
  file.get();
  if (!file || magic != "P6" || most != 255 || width > 8192 || height > 8192) {
    throw std::runtime_error(std::string(path) + ": expected a binary PPM of at most 8192 x 8192 pixels");
  }
  const std::size_t plane = width * height;
  std::vector<unsigned char> bytes(3 * plane);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
    throw std::runtime_error(std::string(path) + ": ends too early");
  }
  Picture picture{std::vector<float>(3 * plane), {1, 3, std::int64_t(height), std::int64_t(width)}};
  for (std::size_t i = 0; i < bytes.size(); ++i) picture.pixels[i % 3 * plane + i / 3] = bytes[i];
  return picture;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) {
    std::fprintf(stderr, "usage: detect PROGRAM.pte PICTURE.ppm\n");
    return 2;
  }
  const auto program = modelbuild::Program::load(arguments[1]);
  Picture picture = read_ppm(arguments[2]);
  const modelbuild::Tensor image{picture.pixels.data(), modelbuild::DType::kFloat32, picture.shape, {}};
  const auto outputs = program->run("forward", std::span(&image, 1));
  const auto floats = [&](std::size_t i) { return static_cast<const float*>(outputs.at(i).tensor.data); };
  const float *box = floats(0), *score = floats(1);  // boxes, scores, landmarks
  for (std::size_t i = 0; i < outputs[1].tensor.numel(); ++i, box += 4) {
    std::printf("%.4f at (%.1f, %.1f) to (%.1f, %.1f)\n", score[i], box[0], box[1], box[2], box[3]);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
