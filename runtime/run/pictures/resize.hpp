// Pictures of another size.
#pragma once

#include "pictures/pixels.hpp"

namespace modelbuild {

// Returns the picture in another size: the bytes of Pillow's Image.resize(..., BILINEAR) of the width, and then of the
// height. A triangle filter covers all pixels of a larger picture. Colors are weighted with their alpha.
Pixels resize(Pixels pixels, std::size_t width, std::size_t height);

}  // namespace modelbuild
