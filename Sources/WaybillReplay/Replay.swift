package import WaybillArchive
package import WaybillExport
package import WaybillProjection
package import WaybillSystem

internal import WaybillJournal
internal import WaybillProtocol

/// Makes a provider's export for a range of days again, from the archive, with the code of the live export.
///
///     archive part + its .sources ─▶ runs of lines, each with its stream and time of receipt ─▶ ExportProjection
///         ─▶ exports/.replay-<provider>/env=…/date=… (parts, ids, manifests) ─▶ exchanged with exports/<provider>/…
///
/// Life of one line: found in a run of its archive file → judged and mapped exactly as it was when it arrived, since
/// the run says which stream brought it and when → a record of its day in the report's zone. Days outside the range
/// are passed over. Files are read in the order of their paths, so the same archive gives the same bytes.
///
/// A live export must not write to a day that is being exchanged, so a replay in place wants the data directory for
/// itself; with an output directory it reads what the archive's last checkpoint stands for and needs no lock.
package enum Replay {
    /// What is made again.
    package struct Request: Sendable {
        package var provider: ProviderID
        /// What the receiver's configuration says of the export; `nil`: defaults.
        package var options: ExportOptions?
        /// The report's zone; `nil`: the live export's, UTC when there is none.
        package var zone: TimeZoneRules?
        /// Days in the report's zone; `nil`: all.
        package var from: CalendarDay?
        package var to: CalendarDay?
        package var environment: DeploymentEnvironment?
        /// Where to write instead of the data directory's exports.
        package var output: String?

        package init(provider: ProviderID) {
            self.provider = provider
        }
    }

    /// What a replay did.
    package struct Report: Hashable, Sendable {
        package var lineCount = 0
        package var byteCount = 0
        /// Bytes of the archive whose origin its `.sources` do not tell any more; they were not replayed.
        package var unexplainedByteCount = 0
        package var counts: ExportCounts
        /// Partitions written, as paths below the output.
        package var partitions: [String] = []
    }

    /// Why a replay cannot be done.
    package enum Failure: Error, CustomStringConvertible {
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case zone(TimeZoneError)
        case noArchive(String)
        case outputInUse(String)

        package var description: String {
            switch self {
            case .data(.locked(let path, let owner)):
                "\(path) is in use by process \(owner); stop that receiver, or write elsewhere with --output DIR"
            case .data(let error): error.description
            case .zone(let error): error.description
            case .disk(let error): "the replay's files cannot be used: \(error)"
            case .outputInUse(let path):
                "\(path) is a receiver's data directory; name a directory of its own with --output"
            case .noArchive(let path): "\(path) holds no archive; name a receiver's data directory with --data"
            }
        }
    }
}
