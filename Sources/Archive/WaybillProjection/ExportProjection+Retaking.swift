package import WaybillData
internal import WaybillExport
package import WaybillProtocol
package import WaybillSystem

/// Exports refused events again, which the present options may accept: as late lines of their days.
///
///     dead letters ─▶ lines of the archive ─▶ records, in a part of their own   ─┐
///                                             dead/retaken (RetakenLetters)     ─┴─▶ one commit
///
/// A crash before the commit leaves everything as it was. A delivered part is not touched: the new part is beside it.
extension ExportProjection {
    /// The result for a refused event.
    package enum Retaking: Hashable, Sendable {
        case exported, held
        /// The provider would not take it, as before.
        case refused
        /// The export has no use for it any more: its person was erased, or a mapping leaves it out.
        case leftOut
    }

    /// Begins to take lines whose events were refused; ``finishRetaking()`` follows.
    ///
    /// - Parameters:
    ///   - time: when they come, as far as parts and seals are concerned.
    ///   - readsPoison: whether lines are read that ended a version of the program.
    package mutating func beginRetaking(at time: WallTime, readsPoison: Bool) {
        self.arrive(at: time)
        self.sink.keepsLetters = false
        if readsPoison { self.mapper.readPoison() }
    }

    /// Exports the event of a dead letter, if that is possible; ``finishBatch()`` writes it.
    ///
    /// - Parameters:
    ///   - letter: the digest of the letter's line.
    ///   - day: the day of the letter.
    package mutating func retake(
        _ line: UnsafeRawBufferPointer, of description: StreamDescription, at offset: UInt64, receivedAt: WallTime,
        isShifted: Bool, letter: Digest128, in day: ExportDay
    ) throws(FileSystemError) -> Retaking {
        let before = self.sink.counts
        let isEvent = self.mapper.map(
            line, of: description, at: offset, receivedAt: receivedAt, isShifted: isShifted, to: &self.sink)
        let counts = self.sink.counts
        if counts.refused > before.refused { return .refused }
        guard isEvent, counts.skips.total == before.skips.total else { return .leftOut }
        let index = self.set.index(of: RetakenLetters.path(in: self.path(day)))
        try self.set.append(RetakenLetters.line(of: letter), to: index)
        return counts.held > before.held ? .held : .exported
    }

    /// Closes the parts that have the events, and commits.
    ///
    /// - Returns: the parts, as paths without extension.
    package mutating func finishRetaking() throws(FileSystemError) -> [String] {
        try self.finishBatch()
        for key in self.touchedKeys.sorted() { try self.closeOpenPart(of: key) }
        let parts = ExportCheckpoint.closing(in: self.closed.entries).keys.filter { !DeadLetterFile.isDead($0) }
        try self.checkpoint(at: self.checkpointedPosition)
        self.sink.keepsLetters = true
        try self.sealWhatCanBe()
        return parts.sorted()
    }
}
