/// The pieces in which a request's body comes: chunks, or what the network brings at once.
///
///     1 CR LF { CR LF 1 CR LF " CR LF …      6 bytes a piece
///
/// A piece costs an event loop some microseconds, however short it is. So a body of many pieces of a few bytes costs a
/// thousand times what its bytes cost, and delays all others. Who writes byte by byte sends little; who sends much buffers.
struct BodyPieces {
    /// So many pieces may have any length.
    static let countMin = 4096
    /// Of more, each has so many bytes on average.
    static let byteCountMin = 16

    private var count = 0
    private var byteCount = 0

    /// Takes a piece.
    ///
    /// - Returns: whether the body may continue.
    mutating func take(_ byteCount: Int) -> Bool {
        self.count += 1
        self.byteCount += byteCount
        return self.count <= Self.countMin || self.byteCount >= self.count * Self.byteCountMin
    }
}
