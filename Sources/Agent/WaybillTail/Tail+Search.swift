internal import WaybillProtocol
internal import WaybillSystem

/// The folders that were listed during one look, so that each is listed once.
struct FileSearch {
    /// The number of names that are looked at in the subfolders of one folder, those of the subfolders included.
    static let nameCountMax = 4096

    var listings: [PathKey: FolderListing] = [:]
    /// What is in the subfolders of a folder.
    var subfolders: [PathKey: [FileIdentity: String]] = [:]
    /// Whether something could not be looked at just now: what is not found may be there.
    var isUncertain = false

    /// Notes an error; what no one may read stays unread.
    mutating func failed(_ error: FileSystemError) {
        if [.tooManyFiles, .diskError, .hanging].contains(error.code) { self.isUncertain = true }
    }
}

/// What is in a folder: the paths of its files, and its subfolders.
struct FolderListing {
    var device: UInt64?
    var files: [FileIdentity: String] = [:]
    var folders: [(path: String, modified: Int64)] = []
}

/// Looks for files that are at none of the paths that patterns lead to.
///
/// A file was rotated within its folder, within the folder that a link led to, or into a folder of one of these.
/// Outside the patterns it is taken if its bytes prove that it is the one: it is opened below the folder without
/// following links, is regular, and belongs to the folder's owner.
extension Tail {
    /// Searches for a file in the folder of its old path, in the one where it really was, and in their subfolders.
    ///
    /// - Returns: its path, and its identity there: a device may have another number after a restart.
    mutating func findRenamed(
        _ file: TailedFile, _ number: ContentNumber?, _ search: inout FileSearch
    ) -> (path: String, identity: FileIdentity)? {
        search.isUncertain = false
        let folders = self.searchedFolders(of: file)
        // Listing a folder may close the file.
        let isUnlinked = self.isUnlinked(file)
        for folder in folders {
            let listing = self.listing(of: folder, file, &search)
            let there = file.renumbered(listing.device)
            guard let path = listing.files[there.identity] else { continue }
            if self.isTaken(there, number, at: path, below: folder, &search) { return (path, there.identity) }
        }
        guard !isUnlinked else { return nil }
        for folder in folders {
            let there = file.renumbered(self.listing(of: folder, file, &search).device)
            guard let path = self.subfolders(of: folder, file, &search)[there.identity] else { continue }
            if self.isTaken(there, number, at: path, below: folder, &search) { return (path, there.identity) }
        }
        return nil
    }

    private mutating func isTaken(
        _ file: TailedFile, _ number: ContentNumber?, at path: String, below folder: String, _ search: inout FileSearch
    ) -> Bool {
        // The inode of an open file is its own.
        if file.descriptor != nil { return true }
        return self.source(of: path) == file.source
            ? self.isSame(file, number, at: path, in: file.source)
            : self.isProven(file, number, at: path, below: folder, &search)
    }

    /// Whether the inode of a file that is not open is still its own at another path: it has the file's birth or, where
    /// that is unknown, its content; assumed where it cannot be read now.
    ///
    /// - Parameter orShorter: whether the beginning of the content is enough.
    mutating func isSame(
        _ file: TailedFile, _ number: ContentNumber?, at path: String, in source: Int, orShorter: Bool = false
    ) -> Bool {
        var there = file
        there.source = source
        do throws(FileSystemError) {
            guard let descriptor = try self.openUntrusted(path, there) else { return true }
            defer { self.files.close(descriptor) }
            let status = try self.files.status(descriptor)
            guard status.identity == file.identity else { return false }
            guard file.birth == 0 || status.birth == 0 else { return file.birth == status.birth }
            return try self.hasContent(of: file, number, descriptor, orShorter: orShorter)
        } catch  where error.code == .tooManyFiles {
            guard self.lowerOpenFileCount() else { return true }
            return self.isSame(file, number, at: path, in: source, orShorter: orShorter)
        } catch {
            return true
        }
    }

    /// Whether a file begins as another one, and has all that was shipped of it, or is shorter.
    private func hasContent(
        of file: TailedFile, _ number: ContentNumber?, _ descriptor: FileID, orShorter: Bool
    ) throws(FileSystemError) -> Bool {
        // A file without an id has no proof; it is read from its start.
        guard let head = file.fingerprint else { return true }
        guard try self.fingerprint(of: descriptor, at: 0, byteCount: head.byteCount) == head else { return false }
        switch try self.agreement(of: descriptor, with: file, number) {
        case .whole: return true
        case .soFar: return orShorter
        case .differs: return false
        }
    }

    /// Whether an open file has no name any more.
    func isUnlinked(_ file: TailedFile) -> Bool {
        guard let descriptor = file.descriptor else { return false }
        do throws(FileSystemError) {
            return try self.files.status(descriptor).linkCount == 0
        } catch {
            return false
        }
    }

    /// The folder of its path, and the one where links led.
    func searchedFolders(of file: TailedFile) -> [String] {
        let folder = Path.parent(of: file.path)
        guard let real = file.real.map({ Path.parent(of: $0.path) }), real != folder else { return [folder] }
        return [folder, real]
    }

    private mutating func listing(
        of folder: String, _ file: TailedFile, _ search: inout FileSearch
    ) -> FolderListing {
        let key = PathKey(folder)
        if let listing = search.listings[key] { return listing }
        var listing = FolderListing()
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: folder) else { return listing }
            listing.device = status.identity.device
            for name in try self.names(in: folder) {
                let path = file.path.utf8.contains(UInt8(ascii: "/")) ? Path.join(folder, name) : name
                guard let status = try self.status(at: path, source: file.source) else { continue }
                switch status.kind {
                case .regular: listing.files[status.identity] = path
                case .directory: listing.folders.append((path, status.modified))
                case .link, .other: break
                }
            }
        } catch {
            // Files listed so far still count.
            search.failed(error)
        }
        if !search.isUncertain { search.listings[key] = listing }
        return listing
    }

    /// The names in a folder, for which a file is closed if the process has no descriptor left.
    private mutating func names(in folder: String) throws(FileSystemError) -> [String] {
        while true {
            do throws(FileSystemError) {
                return try self.files.list(folder)
            } catch {
                guard error.code == .tooManyFiles, self.lowerOpenFileCount() else { throw error }
            }
        }
    }

    /// The files in the subfolders of a folder: in those first of which a name changed last.
    private mutating func subfolders(
        of folder: String, _ file: TailedFile, _ search: inout FileSearch
    ) -> [FileIdentity: String] {
        let key = PathKey(folder)
        if let found = search.subfolders[key] { return found }
        var found: [FileIdentity: String] = [:]
        var room = FileSearch.nameCountMax
        let listing = self.listing(of: folder, file, &search)
        for subfolder in listing.folders.sorted(by: { $0.modified > $1.modified }) where room > 0 {
            room -= 1
            self.addFiles(of: subfolder.path, on: listing.device, to: &found, &room, &search)
        }
        if !search.isUncertain { search.subfolders[key] = found }
        return found
    }

    /// Adds the files of a subfolder that is not a link, and on the device of its folder.
    private mutating func addFiles(
        of folder: String, on device: UInt64?, to found: inout [FileIdentity: String], _ room: inout Int,
        _ search: inout FileSearch
    ) {
        do throws(FileSystemError) {
            guard let status = try self.files.status(ofEntry: folder), status.kind == .directory,
                status.identity.device == device
            else { return }
            // Names that end with a date are in its order.
            for name in try self.names(in: folder).suffix(room) {
                room -= 1
                let path = Path.join(folder, name)
                guard let status = try self.files.status(ofEntry: path), status.kind == .regular else { continue }
                found[status.identity] = path
            }
        } catch {
            search.failed(error)
        }
    }

    /// Whether a file outside the patterns is the one that was followed.
    private mutating func isProven(
        _ file: TailedFile, _ number: ContentNumber?, at path: String, below folder: String, _ search: inout FileSearch
    ) -> Bool {
        // A bare name is below the current folder.
        let prefix = Path.join(folder, "").utf8
        let rest = path.utf8.starts(with: prefix) ? String(Substring(path.utf8.dropFirst(prefix.count))) : path
        do throws(FileSystemError) {
            let folder = try self.files.open(folder, .read)
            defer { self.files.close(folder) }
            let descriptor = try self.files.open(rest, in: folder)
            defer { self.files.close(descriptor) }
            let status = try self.files.status(descriptor)
            guard status.kind == .regular, status.identity == file.identity,
                FileRefusal.isOwn(status, try self.files.status(folder)),
                file.birth == 0 || status.birth == 0 || file.birth == status.birth
            else { return false }
            return try self.hasContent(of: file, number, descriptor, orShorter: false)
        } catch  where error.code == .tooManyFiles && self.lowerOpenFileCount() {
            return self.isProven(file, number, at: path, below: folder, &search)
        } catch {
            search.failed(error)
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

    /// Whether a segment still has its name in the folder that its spool's link led to: it is not gone.
    func isBehindLink(_ file: TailedFile) -> Bool {
        guard file.isSegment, let real = file.real?.path else { return false }
        do throws(FileSystemError) {
            return try self.files.status(at: real) != nil || self.mayBeUnfinished(real)
        } catch {
            return true
        }
    }

    // MARK: Ends that no one saw

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
