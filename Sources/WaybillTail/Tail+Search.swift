internal import WaybillProtocol
internal import WaybillSystem

/// The folders that were listed during one look, so that each is listed once.
struct FileSearch {
    var listings: [PathKey: [FileIdentity: String]] = [:]
}

/// Looks for files that are at none of the paths that patterns lead to.
///
/// A file was rotated within its folder, or within the folder that a link led to. Outside the patterns it is taken if its
/// bytes prove that it is the one: it is opened below that folder without following links, is regular, and belongs to the
/// folder's owner.
extension Tail {
    /// Searches for a file in the folder of its old path, and in the one where it really was.
    mutating func findRenamed(_ file: TailedFile, _ number: ContentNumber?, _ search: inout FileSearch) -> String? {
        for folder in self.searchedFolders(of: file) {
            guard let path = self.listing(of: folder, file, &search)[file.identity] else { continue }
            // The inode of an open file is its own.
            if self.source(of: path) == file.source || file.descriptor != nil { return path }
            if self.isProven(file, number, at: path) { return path }
        }
        return nil
    }

    /// The folder of its path, and the one where links led.
    func searchedFolders(of file: TailedFile) -> [String] {
        let folder = Path.parent(of: file.path)
        guard let real = file.real.map({ Path.parent(of: $0.path) }), real != folder else { return [folder] }
        return [folder, real]
    }

    private func listing(
        of folder: String, _ file: TailedFile, _ search: inout FileSearch
    ) -> [FileIdentity: String] {
        let key = PathKey(folder)
        if let listing = search.listings[key] { return listing }
        var listing: [FileIdentity: String] = [:]
        do throws(FileSystemError) {
            guard try self.files.status(at: folder) != nil else { return [:] }
            for name in try self.files.list(folder) {
                let path = file.path.utf8.contains(UInt8(ascii: "/")) ? Path.join(folder, name) : name
                if let status = try self.status(at: path, source: file.source), status.kind == .regular {
                    listing[status.identity] = path
                }
            }
        } catch {
            // Files listed so far still count; a file that is not found keeps its descriptor or waits.
        }
        search.listings[key] = listing
        return listing
    }

    /// Whether a file outside the patterns is the one that was followed.
    private func isProven(_ file: TailedFile, _ number: ContentNumber?, at path: String) -> Bool {
        do throws(FileSystemError) {
            let folder = try self.files.open(Path.parent(of: path), .read)
            defer { self.files.close(folder) }
            let descriptor = try self.files.open(Path.name(of: path), in: folder)
            defer { self.files.close(descriptor) }
            let status = try self.files.status(descriptor)
            guard status.kind == .regular, status.identity == file.identity,
                FileRefusal.isOwn(status, try self.files.status(folder)),
                file.birth == 0 || status.birth == 0 || file.birth == status.birth
            else { return false }
            // A file without an id has no proof; it is read from its start.
            guard let head = file.fingerprint else { return true }
            guard try self.fingerprint(of: descriptor, at: 0, byteCount: head.byteCount) == head else { return false }
            return try self.agreement(of: descriptor, with: file, number) == .whole
        } catch {
            return false
        }
    }

    // MARK: Real paths

    /// Remembers where a file is to which links lead.
    mutating func noteRealPath(of key: StreamKey) {
        let path = self.table[key].path
        let folder = Path.parent(of: path)
        do throws(FileSystemError) {
            var real: String?
            if self.sources[self.table[key].source].followsLinks {
                real = try self.files.realPath(of: path)
            } else if let folder = try self.realFolder(folder) {
                real = Path.join(folder, Path.name(of: path))
            }
            // A relative path says where its folder is, too.
            guard let real, Path.isAbsolute(path), real != path else { return }
            self.table[key].real = FilePlace(real)
        } catch {
            // What can be said of the file is said where it is read.
        }
    }

    /// Where a folder really is, asked for once in a look.
    private mutating func realFolder(_ folder: String) throws(FileSystemError) -> String? {
        if self.looks.realFolder?.path == folder { return self.looks.realFolder?.real }
        let real = try self.files.realPath(of: folder)
        self.looks.realFolder = (folder, real)
        return real
    }

    // MARK: Ends that nobody saw

    /// Notes a file that is nowhere, and that may have had more lines than were seen before the agent was started.
    mutating func noteUnseenEnd(of file: TailedFile) {
        self.notices.unseenEnd(of: file.path, searched: self.searchedFolders(of: file))
    }

    /// Whether the directory of a missing file can be checked and is on the file's device: then the file is gone.
    ///
    /// A directory that cannot be read, or is on another device because nothing is mounted there now, proves nothing.
    /// If directories were deleted with the file, the nearest existing one is checked.
    func isDirectoryPresent(_ file: TailedFile) -> Bool {
        var directory = Path.parent(of: file.path)
        do throws(FileSystemError) {
            while true {
                if let status = try self.files.status(at: directory) {
                    guard status.identity.device == file.identity.device else { return false }
                    if directory == Path.parent(of: file.path) { _ = try self.files.list(directory) }
                    return true
                }
                guard directory != "/", directory != "." else { return false }
                directory = Path.parent(of: directory)
            }
        } catch {
            return false
        }
    }
}
