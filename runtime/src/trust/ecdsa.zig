//! ECDSA on the curve P-256 with SHA-256, of Zig's standard library, as a C function: declared in ecdsa.hpp.

const std = @import("std");

const Ecdsa = std.crypto.sign.ecdsa.EcdsaP256Sha256;

// A failed check of Zig's ends the process, without code that prints.
pub const panic = std.debug.no_panic;

/// Returns whether a signature (DER) is that of a key (a point in the form of SEC 1) for a message's SHA-256.
export fn modelbuild_ecdsa_p256(
    key: [*]const u8,
    key_size: usize,
    signature: [*]const u8,
    signature_size: usize,
    digest: *const [32]u8,
) bool {
    const point = Ecdsa.PublicKey.fromSec1(key[0..key_size]) catch return false;
    point.p.rejectIdentity() catch return false;
    const made = Ecdsa.Signature.fromDer(signature[0..signature_size]) catch return false;
    made.verifyPrehashed(digest.*, point) catch return false;
    return true;
}
