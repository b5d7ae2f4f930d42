package import Logging
internal import WaybillHost
internal import WaybillProtocol
package import WaybillSystem
internal import WaybillTail

/// Everything noteworthy that an agent does, logged in one place; never per event.
package struct AgentTelemetry: Sendable {
    let logger: Logger
    /// What started this process, and watches it.
    let manager: ServiceManager

    package init(logger: Logger, manager: ServiceManager = .none) {
        self.logger = logger
        self.manager = manager
    }

    /// - Parameter entryCount: the number of entries in the registry.
    func started(_ configuration: AgentConfiguration, entryCount: Int) {
        self.logger.info(
            "agent started",
            metadata: [
                "name": "\(configuration.name)", "state": "\(configuration.stateDirectory)",
                "to": "\(configuration.receivers.map(\.description).joined(separator: ","))",
                "tls": "\(configuration.tls == nil ? "off" : "on")", "registry_entries": .number(entryCount),
            ])
    }

    /// The agent has its configuration and its state; whether a receiver is there, it says next.
    func ready(_ receivers: [NetworkAddress]) {
        let addresses = receivers.map(\.description).joined(separator: ", ")
        self.manager.tell(.ready, .status("connecting to \(addresses)"))
    }

    /// Logs the damage that opening the registry found.
    func registryDamaged(_ notes: [String]) {
        for note in notes {
            self.logger.warning(
                .registryDamaged,
                "registry: parts of it could not be read; nothing is lost, the receiver knows every position",
                metadata: ["found": "\(note)"])
        }
    }

    func deviceKeyDamaged(movedTo path: String) {
        self.logger.warning(
            .deviceKeyDamaged,
            "the key of this install was damaged; the install continues with a new key, under a new name",
            metadata: ["kept": "\(path)"])
    }

    /// Entries whose value is unreadable; their files are treated as new.
    func registryEntriesUnreadable(_ streams: [String]) {
        guard !streams.isEmpty else { return }
        self.logger.warning(
            .registryEntriesUnreadable,
            "registry: entries that cannot be read are left out; nothing is lost, the receiver knows every position",
            metadata: ["entries": .number(streams.count), "first": "\(streams[0])"])
    }

    /// The registry, or an entry of it, ended the agent twice.
    func registrySetAside(_ path: String, signal: Int) {
        self.logger.error(
            .poisonSetAside,
            "what ended the agent twice while it read its registry was set aside; everything else continues",
            metadata: ["reader": "registry", "path": "\(path)", "signal": .number(signal)])
    }

    /// Starts in a row ended while the registry was read, without a fault of the program.
    func registryEnded(_ path: String, starts: Int) {
        self.logger.error(
            .readerEnded, "several starts in a row ended while the registry was read; nothing was set aside",
            metadata: ["reader": "registry", "path": "\(path)", "starts": .number(starts)])
    }

    func folderNarrowed(_ path: String, from found: UInt16, to permissions: UInt16) {
        self.logger.notice(
            "other users could read this folder; its permissions were narrowed",
            metadata: [
                "path": "\(path)", "found": "\(String(found, radix: 8))", "allowed": "\(String(permissions, radix: 8))",
            ])
    }

    func folderOpenToOthers(_ path: String, _ error: FileSystemError) {
        self.logger.warning(
            .stateOpenToOthers, "other users can read this folder; its owner can run chmod go= FOLDER",
            metadata: ["path": "\(path)", "cause": "\(error)"])
    }

    func metricsServed(on address: String) {
        self.logger.info("metrics are served", metadata: ["address": "\(address)"])
    }

    func connected(receiver: ReceiverIdentity, at address: String, _ meeting: ReceiverMeeting) {
        let metadata: Logger.Metadata = [
            "receiver": "\(receiver.name)", "address": "\(address)", "incarnation": "\(receiver.incarnation.text)",
        ]
        self.manager.tell(.status("connected to \(receiver.name) at \(address)"))
        switch meeting {
        case .known: self.logger.info("connected", metadata: metadata)
        case .unknown:
            self.logger.notice(
                "connected to a receiver that this agent has not met; every file is asked for", metadata: metadata)
        case .older:
            self.logger.warning(
                .receiverOlder,
                "connected to a receiver that came back older than it was; every file that still exists is asked for",
                metadata: metadata)
        }
    }

    /// Logs what the receiver set aside; the receiver sends it at most once a second.
    func quarantined(_ counts: [QuarantineCount]) {
        guard let first = counts.first else { return }
        self.logger.warning(
            .linesQuarantinedThere, "the receiver put lines into its quarantine",
            metadata: [
                "lines": .number(counts.reduce(0) { $0 &+ $1.count }), "streams": .number(counts.count),
                "first": "\(first.stream): \(first.reason)",
            ])
    }

    /// Logs what the receiver's exports refused; the receiver sends it at most once a second.
    func refusedEvents(_ counts: [QuarantineCount]) {
        guard let first = counts.first else { return }
        self.logger.warning(
            .eventsRefusedThere, "exports of the receiver refused events of this agent; its log says what to do",
            metadata: [
                "events": .number(counts.reduce(0) { $0 &+ $1.count }), "export": "\(first.export ?? "")",
                "reason": "\(first.reason)", "first": "\(first.stream)",
            ])
    }

    /// Why there is no connection, and what waits for one.
    struct Disconnection {
        let reason: String
        let address: String
        /// How long no receiver has accepted this agent.
        let alone: Duration
        let waitingByteCount: Int
        let retryingIn: Duration
    }

    func disconnected(_ disconnection: Disconnection) {
        self.logger.warning(
            .disconnected,
            "not connected; what is not acknowledged stays on disk and is sent after the next connection",
            metadata: [
                "reason": "\(disconnection.reason)", "receiver": "\(disconnection.address)",
                "alone_for_s": .seconds(disconnection.alone),
                "waiting_bytes": .number(disconnection.waitingByteCount),
                "retry_in_s": .seconds(disconnection.retryingIn),
            ])
        self.manager.tell(.status("not connected: \(disconnection.reason)"))
    }

    func fleetDoubted(_ fleet: String, of receiver: ReceiverIdentity, at address: String) {
        self.logger.warning(
            .fleetDoubted,
            "nothing shows that the receiver belongs to the fleet that it names; what it holds counts as its own",
            metadata: ["receiver": "\(receiver.name)", "address": "\(address)", "fleet": "\(fleet)"])
    }

    /// Logs that a receiver acknowledges nothing of what is in flight, or that it acknowledges again.
    func acknowledgements(_ report: Liveness.Report, from address: String, inFlightByteCount: Int) {
        switch report {
        case .unheard(let silence):
            self.acksMissing("\(Self.unheard(for: silence))", from: address, silence, inFlightByteCount)
        case .unacknowledged(let silence):
            self.acksMissing(
                "the receiver answers and acknowledges nothing; its disk may be full: see its log", from: address,
                silence, inFlightByteCount)
        case .resumed:
            self.logger.notice("the receiver acknowledges again", metadata: ["address": "\(address)"])
        }
    }

    private func acksMissing(
        _ text: Logger.Message, from address: String, _ silence: Duration, _ inFlightByteCount: Int
    ) {
        self.logger.warning(
            .acksMissing, text,
            metadata: [
                "address": "\(address)", "silent_for_s": .seconds(silence),
                "in_flight_bytes": .number(inFlightByteCount),
            ])
    }

    /// What is to blame where nothing at all was heard.
    static func unheard(for silence: Duration) -> String {
        "nothing heard for \(silence.components.seconds) s: the network or the host"
    }

    func moved(_ receivers: [String]) {
        self.logger.notice(
            "the receiver redirected this agent",
            metadata: ["receivers": "\(receivers.joined(separator: ","))"])
    }

    func spoolUnusable(_ directory: String, isThere: Bool) {
        self.logger.error(
            .spoolUnusable,
            isThere
                ? "the spool path is not a directory; name the folder that the app's library writes to"
                : "a spool does not exist yet; correct the path if no app will create it",
            metadata: ["path": "\(directory)"])
    }

    func nothingMatches(_ patterns: [String]) {
        self.logger.warning(
            .nothingMatches, "no file with a whole line matches yet; correct the pattern if none is expected to",
            metadata: ["patterns": "\(patterns.joined(separator: " "))"])
    }

    func streamRefused(_ stream: String, _ code: ErrorCode, _ text: String, attempt: Int) {
        self.logger.warning(
            .streamRefused, "the receiver refused a stream; the agent opens it again",
            metadata: [
                "stream": "\(stream)", "code": "\(code.rawValue)", "reason": "\(text)", "attempt": .number(attempt),
            ])
    }

    func registryFailed(_ error: FileSystemError) {
        self.logger.error(
            .registryFailed, "the registry could not be written; nothing is lost, the receiver knows every position",
            metadata: ["cause": "\(error)", "code": "\(error.code)"])
    }

    func stopped(_ summary: AgentSummary) {
        self.logger.info("agent stopped", metadata: ["summary": .object(summary.json)])
    }

    func foldersDenied(_ folders: [String]) {
        guard let first = folders.first else { return }
        self.logger.warning(
            .foldersDenied,
            "folders may not be read, so their new files are found late or not at all; let the agent's user read them",
            metadata: ["folders": .number(folders.count), "first": "\(first)"])
    }

    func foldersBlind(_ folders: [String]) {
        guard let first = folders.first else { return }
        self.logger.info(
            "folders are polled, because their file systems do not report every change (NFS, SMB, FUSE, 9p, overlay)",
            metadata: ["folders": .number(folders.count), "first": "\(first)"])
    }

    func polls(unwatchedCount: Int) {
        guard unwatchedCount > 0 else { return }
        self.logger.warning(
            .foldersPolled, "folders cannot be watched and are polled instead; raise fs.inotify.max_user_watches",
            metadata: ["unwatched_folders": .number(unwatchedCount)])
    }

    func reshipped(_ path: String, as newPath: String) {
        self.logger.notice(
            "a segment is shipped under another id, because a receiver holds other bytes under its own",
            metadata: ["path": "\(newPath)", "from": "\(path)"])
    }

    func notReshipped(_ path: String, _ error: Reshipment.Failure) {
        self.logger.warning(
            .notReshipped, "a disputed segment cannot be shipped under another id yet",
            metadata: ["path": "\(path)", "cause": "\(error)"])
    }

    /// Where a stream ended too early; `lost_bytes` counts the bytes that had been seen.
    private static func loss(
        _ stream: StreamID?, _ path: String, _ offset: Int, _ lostByteCount: Int
    ) -> Logger.Metadata {
        [
            "stream": "\(stream?.description ?? "none")", "path": "\(path)", "offset": .number(offset),
            "lost_bytes": .number(lostByteCount),
        ]
    }

    private static func difference(
        _ stream: StreamID, _ path: String, _ offset: Int, _ byteCount: Int, skippedByteCount: UInt64 = 0
    ) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "stream": "\(stream)", "path": "\(path)", "receiver_bytes": .number(offset),
            "file_bytes": .number(byteCount),
        ]
        if skippedByteCount > 0 { metadata["skipped"] = "\(skippedByteCount)" }
        return metadata
    }

    private func receiverForgot(_ id: StreamID, _ path: String, _ offset: Int, _ acked: Int) {
        self.logger.warning(
            .receiverForgot, "the receiver holds less than it acknowledged; the rest is sent again",
            metadata: [
                "stream": "\(id)", "path": "\(path)", "receiver_bytes": .number(offset), "acked_bytes": .number(acked),
            ])
    }

    private func segmentAwaits(_ id: StreamID, _ path: String, _ holder: String, _ byteCount: Int) {
        self.logger.warning(
            .segmentAwaits,
            "a segment's first bytes are in one receiver's own archive; it stays until that one has sealed it",
            metadata: ["stream": "\(id)", "path": "\(path)", "receiver": "\(holder)", "bytes": .number(byteCount)])
    }

    /// Logs what no file holds any more, as far as it is known.
    private func segmentsMissing(_ missing: MissingSegments) {
        let knownSince = missing.knownSince.map { WallTime(milliseconds: $0).text } ?? "nothing is known"
        guard missing.count > 0 else {
            self.logger.notice(
                "no segment of the last week is missing at this receiver; what was delivered earlier is unknown",
                metadata: ["known_since": "\(knownSince)"])
            return
        }
        self.logger.error(
            .segmentsMissing,
            "segments that were delivered and deleted are missing at this receiver; what was delivered earlier is unknown",
            metadata: [
                "segments": .number(missing.count), "bytes": .number(missing.byteCount),
                "first": "\(missing.ids.joined(separator: " "))", "known_since": "\(knownSince)",
            ])
    }

    private func refused(_ path: String, _ refusal: FileRefusal) {
        self.logger.warning(
            .fileRefused,
            refusal == .compressed
                ? "this is a compressed file and is not followed"
                : "another user may have put this here, so it is not followed",
            metadata: ["path": "\(path)", "reason": "\(refusal.rawValue)", "remedy": "\(refusal.remedy)"])
    }

    private func fewDescriptors(_ count: Int) {
        self.logger.warning(
            .fewDescriptors, "the process may open no more files; fewer are held open, and are read in turn",
            metadata: ["open_files": .number(count)])
    }

    private func compressed(_ folder: String, _ first: String, _ count: Int) {
        self.logger.warning(
            .fileRefused, "compressed files are not followed; others of this folder are counted and not logged",
            metadata: [
                "path": "\(folder)", "files": .number(count), "first": "\(first)",
                "reason": "\(FileRefusal.compressed.rawValue)", "remedy": "\(FileRefusal.compressed.remedy)",
            ])
    }

    /// - Parameter untoldCount: files of that format that were not logged, for the rate limit.
    func recognized(_ path: String, _ format: ForeignFormat, untoldCount: Int) {
        self.logger.warning(
            .foreignFormat, "this file is \(format.name); \(format.remedy)",
            metadata: ["path": "\(path)", "format": "\(format.rawValue)", "more_unlogged": .number(untoldCount)])
    }

    /// - Parameter loss: all that was lost since the start, with what this notice says.
    func noticed(_ notice: TailNotice, loss: TailLoss = TailLoss()) {
        switch notice {
        case .discovered(let id, let path): self.discovered(id, path)
        case .moreDiscovered(let count): self.logger.debug("more files found", metadata: ["files": .number(count)])
        case .rotated(let id, let from, let to):
            self.logger.info("file renamed", metadata: ["stream": "\(id)", "from": "\(from)", "to": "\(to)"])
        case .cut(let id, let path, let offset, let lostByteCount):
            self.cut(Self.loss(id, path, offset, lostByteCount), lostByteCount)
        case .continued, .regrown, .shortened, .hole: self.succeeded(notice)
        case .unseenEnds(let folders, let first, let count): self.endsUnseen(folders, first, count)
        case .receiverDiffers(let id, let path, let offset, let byteCount):
            self.logger.notice(
                "the receiver holds other bytes under this id than the file has; the file gets the next id",
                metadata: Self.difference(id, path, offset, byteCount))
        case .segmentDisputed(let id, let path, let offset, let byteCount, let skipped):
            self.logger.error(
                .segmentDisputed,
                "the receiver does not prove that it holds this segment's bytes; it stays; see: waybill reship --help",
                metadata: Self.difference(id, path, offset, byteCount, skippedByteCount: skipped))
        case .segmentAwaits(let id, let path, let holder, let count): self.segmentAwaits(id, path, holder, count)
        case .segmentShortened(let id, let path, let offset, let byteCount):
            self.logger.warning(
                .segmentShortened,
                "the receiver holds more of this segment than the file has; this machine lost the file's end",
                metadata: Self.difference(id, path, offset, byteCount))
        case .segmentsMissing(let missing): self.segmentsMissing(missing)
        case .receiverForgot(let id, let path, let offset, let acked): self.receiverForgot(id, path, offset, acked)
        case .vanished(let id, let path, let offset, let lostByteCount):
            self.gone(Self.loss(id, path, offset, lostByteCount), lostByteCount, of: loss)
        case .unreadable(let path, let error):
            self.logger.warning(
                .fileUnreadable, "a file or folder cannot be read; what is in it is not shipped",
                metadata: ["path": "\(path)", "cause": "\(error)"])
        case .fewDescriptors(let count): self.fewDescriptors(count)
        case .locksUnseen(let folder, let grace): self.locksUnseen(folder, grace)
        case .recognized(let path, let format): self.recognized(path, format, untoldCount: 0)
        case .refused(let path, let refusal): self.refused(path, refusal)
        case .compressed(let folder, let first, let count): self.compressed(folder, first, count)
        case .notRegular(let path):
            self.logger.warning(
                .notRegular, "this is not a regular file and is not followed", metadata: ["path": "\(path)"])
        case .notSegment(let path):
            self.logger.warning(
                .notSegment, "a spool contains a file that is not a segment", metadata: ["path": "\(path)"])
        case .duplicateSegment(let id, let path):
            self.logger.warning(
                .duplicateSegment, "a segment exists twice", metadata: ["stream": "\(id)", "path": "\(path)"])
        case .tooLong(let id, let offset, let length, let keptByteCount, let path):
            self.tooLong(id, offset, length, keptByteCount, path)
        case .tooLongSoFar(let id, let path, let offset, let length): self.tooLongSoFar(id, path, offset, length)
        case .quarantineFailed(let id, let offset, let error): self.longLineNotKept(id, offset, error)
        case .tornTail(let id, let offset, let length):
            self.logger.info(
                "a segment ends in an unfinished line, which the app never saw as stored",
                metadata: ["stream": "\(id)", "offset": .number(offset), "bytes": .number(length)])
        case .segmentDeleted(let id):
            self.logger.debug("segment shipped and deleted", metadata: ["stream": "\(id)"])
        case .segmentKept(let id): self.logger.debug("segment shipped and kept", metadata: ["stream": "\(id)"])
        case .segmentsReturned(let count, let byteCount): self.returned(count, byteCount)
        case .keptSegmentDeleted(let path, let count, let reason): self.expired(path, count, reason)
        case .quarantineDeleted(let path, let count, let reason): self.quarantineExpired(path, count, reason)
        case .emptySegmentDeleted(let path):
            self.logger.debug("empty segment deleted", metadata: ["path": "\(path)"])
        case .segmentNamed(let id, let path): self.named(id, path)
        case .segmentUndeletable(let id, let path, let error): self.undeletable(id, path, error)
        case .segmentGrewAfterSeal(let id, let path, let sealed, let byteCount):
            self.segmentGrew(id, path, sealed, byteCount)
        }
    }

    private func longLineNotKept(_ id: StreamID, _ offset: Int, _ error: FileSystemError) {
        self.logger.error(
            .longLineNotKept, "a line that is too long could not be quarantined; the stream waits",
            metadata: ["stream": "\(id)", "offset": .number(offset), "cause": "\(error)"])
    }

    private func returned(_ count: Int, _ byteCount: Int) {
        self.logger.warning(
            .segmentsReturned,
            "the receiver does not have what was shipped to this address: segments that were kept are shipped again",
            metadata: ["segments": "\(count)", "bytes": "\(byteCount)"])
    }

    private func expired(_ path: String, _ byteCount: Int, _ reason: FileLimit.Reason) {
        self.logger.debug(
            "a segment that was shipped and kept is deleted",
            metadata: ["path": "\(path)", "bytes": "\(byteCount)", "why": "\(reason.rawValue)"])
    }

    private func quarantineExpired(_ path: String, _ byteCount: Int, _ reason: FileLimit.Reason) {
        self.logger.notice(
            "a line that was too long is deleted from the quarantine",
            metadata: ["path": "\(path)", "bytes": "\(byteCount)", "why": "\(reason.rawValue)"])
    }

    private func named(_ id: StreamID, _ path: String) {
        self.logger.notice(
            "a segment lost its name in a power failure; it is renamed and shipped",
            metadata: ["stream": "\(id)", "path": "\(path)"])
    }

    private func undeletable(_ id: StreamID, _ path: String, _ error: FileSystemError) {
        self.logger.warning(
            .segmentUndeletable, "a shipped segment cannot be deleted",
            metadata: ["stream": "\(id)", "path": "\(path)", "cause": "\(error)"])
    }

    private func tooLong(_ id: StreamID, _ offset: Int, _ length: Int, _ keptByteCount: Int, _ path: String) {
        self.logger.warning(
            .lineTooLong, "a line is too long and was moved to quarantine",
            metadata: [
                "stream": "\(id)", "offset": .number(offset), "bytes": .number(length), "kept": "\(path)",
                "kept_bytes": .number(keptByteCount),
            ])
    }

    private func tooLongSoFar(_ id: StreamID, _ path: String, _ offset: Int, _ length: Int) {
        self.logger.warning(
            .lineWithoutEnd,
            "a line is too long and has no end yet; the file waits for it: let the program end it, or delete the file",
            metadata: ["stream": "\(id)", "path": "\(path)", "offset": .number(offset), "bytes": .number(length)])
    }

    private func segmentGrew(_ stream: StreamID, _ path: String, _ sealedByteCount: Int, _ byteCount: Int) {
        self.logger.error(
            .segmentGrew, "a segment grew after its writer closed it; it is kept",
            metadata: [
                "stream": "\(stream)", "path": "\(path)", "sealed_bytes": .number(sealedByteCount),
                "bytes": .number(byteCount),
            ])
    }
}
