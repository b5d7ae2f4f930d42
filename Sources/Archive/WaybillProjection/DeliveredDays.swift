internal import WaybillData
internal import WaybillJSON
internal import WaybillSystem

/// Finds out whether the events of a day were accepted by everyone they are sent to; reads the exports' folders.
///
/// A day of an export is delivered once it is sealed, its checkpoint has no event of it that is held or in an open part,
/// and each of its parts has its `.delivered` file. A day of the archive is delivered once the exports have read all its
/// lines, and their days that may have them are delivered: the same day, the one before and the one after, because an
/// export has its own time zone.
///
/// - SeeAlso: `Protocol/formats/exports.md`.
struct DeliveredDays<Files: FileSystem> {
    private let data: DataDirectory<Files>
    private let exports: [String]

    init(_ data: DataDirectory<Files>, exports: [String]) {
        self.data = data
        self.exports = exports
    }

    /// - Parameter position: the manifest's: the day's lines are before it in the journal.
    func isDelivered(archive folder: DayFolder, upTo position: JournalPosition) throws(FileSystemError) -> Bool {
        for export in self.exports {
            let entries = try StateImage.read(self.data.statePath("export-\(export)"), files: self.data.files)?.entries
            guard let read = entries?["position"].flatMap({ Int($0) }), read >= position.rawValue else { return false }
            for distance in Int32(-1)...1 {
                let day = CalendarDay(daysSince1970: folder.day.daysSince1970 + distance)
                let path = "exports/\(export)/env=\(folder.environment)/date=\(day)"
                let standing = entries?[PartStanding.keyPrefix + path].flatMap { PartStanding(text: $0) }
                guard standing.map({ $0.revision > 0 && !$0.isUnsealed }) ?? true,
                    try self.isDelivered(export: path)
                else { return false }
            }
        }
        return true
    }

    /// - Parameter path: the day's folder, below the data directory; a missing one has nothing to deliver.
    func isDelivered(export path: String) throws(FileSystemError) -> Bool {
        let folder = Path.join(self.data.root, path)
        guard try self.data.files.status(at: folder)?.kind == .directory else { return true }
        let names: [String]
        do throws(FileSystemError) {
            names = try self.data.files.list(folder)
        } catch {
            // It was deleted meanwhile.
            guard error.errno == Errno.noEntry else { throw error }
            return true
        }
        guard names.contains(DayFolder.successName) else { return false }
        let stems = Set(names.filter { PartitionPath.partNumber(of: $0) != nil }.map { $0.prefix { $0 != "." } })
        for stem in stems.sorted() {
            guard
                let manifest = try self.data.files.contents(
                    of: Path.join(folder, stem + ".manifest.json"), byteCountMax: 1 << 20
                ).flatMap(PartManifest.init(json:)),
                let delivered = try self.data.files.contents(
                    of: Path.join(folder, stem + ".delivered"), byteCountMax: 256),
                delivered.prefix(while: { $0 != 0x0A }).elementsEqual(manifest.sha256.utf8)
            else { return false }
        }
        return true
    }
}
