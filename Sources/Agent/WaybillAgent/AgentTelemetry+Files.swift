internal import Logging
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillTail

/// Files that end, become shorter, or continue in another file.
extension AgentTelemetry {
    func cut(_ metadata: Logger.Metadata, _ lostByteCount: Int) {
        guard lostByteCount > 0 else {
            return self.logger.info("a file was cut; what was seen of it is shipped", metadata: metadata)
        }
        self.logger.error(
            .fileCut, "a file was cut; its unread content from this offset on is lost at the source (rotate by rename)",
            metadata: metadata)
    }

    /// Files that are deleted together are one cause: each line that is written has the sum.
    func gone(_ metadata: Logger.Metadata, _ lostByteCount: Int, of loss: TailLoss) {
        guard lostByteCount > 0 else {
            return self.logger.debug("a file is gone; what was seen of it is shipped", metadata: metadata)
        }
        self.logger.error(
            .fileGone, "a file is gone; its content from this offset on is lost",
            metadata: metadata.merging(["lost_bytes_total": .number(loss.byteCount)]) { $1 })
    }

    func endsUnseen(_ folders: [String], _ first: String, _ count: Int) {
        self.logger.warning(
            .endUnseen,
            "files are not where they were when the agent stopped, and may have had more lines; look where they went",
            metadata: [
                "path": "\(first)", "files": .number(count), "searched": "\(folders.joined(separator: ", "))",
            ])
    }

    func discovered(_ id: StreamID, _ path: String) {
        self.logger.debug("file found", metadata: ["stream": "\(id)", "path": "\(path)"])
    }

    /// A content that continues, whose first bytes do, or that begins behind NULs.
    func succeeded(_ notice: TailNotice) {
        switch notice {
        case .continued(let id, let path, let offset):
            self.logger.info(
                "a file was written again under its name; it has what was shipped, and continues",
                metadata: ["stream": "\(id)", "path": "\(path)", "offset": .number(offset)])
        case .regrown(let id, let path, let byteCount, let offset):
            self.logger.warning(
                .fileShorter, "a file was shorter than what was shipped of it for a moment; it continues",
                metadata: [
                    "stream": "\(id)", "path": "\(path)", "bytes": .number(byteCount), "offset": .number(offset),
                ])
        case .shortened(let id, let path, let offset, let byteCount, let rereadByteCount):
            self.logger.warning(
                .fileShorter,
                "a file is shorter than what was shipped of it; what differs is shipped as another content",
                metadata: [
                    "stream": "\(id)", "path": "\(path)", "bytes": .number(byteCount), "offset": .number(offset),
                    "reread_bytes": .number(rereadByteCount),
                ])
        case .hole(let id, let path, let offset, let byteCount):
            self.logger.warning(
                .fileHole,
                "NULs before a line are skipped: a program wrote on at its old offset after this file was cut; use O_APPEND",
                metadata: [
                    "stream": "\(id)", "path": "\(path)", "offset": .number(offset), "bytes": .number(byteCount),
                ])
        default: break
        }
    }
}
