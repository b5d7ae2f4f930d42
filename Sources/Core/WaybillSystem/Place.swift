internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Where a path leads, as the system's calls take it: a folder, and a path from there.
///
/// Below the folders of a data directory it is the folder that holds the file, reached without following a link, and the
/// file's name; elsewhere the whole path.
struct Place: ~Copyable {
    let folder: Int32
    let path: String
    var isBelowData: Bool { self.folder != AT_FDCWD }

    /// - Parameter data: the data directory with a slash at its end; empty without one.
    init(_ path: String, below data: String, _ operation: String) throws(FileSystemError) {
        let (folder, error) = Self.open(path, below: data)
        self.folder = folder
        self.path = folder == AT_FDCWD ? path : Path.name(of: path)
        if folder == -1 { throw FileSystemError(operation, path: path, errno: error) }
    }

    /// The folder that holds a file below the folders of a data directory, `AT_FDCWD` for other paths, or -1 and the error.
    private static func open(_ path: String, below data: String) -> (folder: Int32, error: Int32) {
        guard let (base, rest) = Self.split(path, below: data) else { return (AT_FDCWD, 0) }
        #if canImport(Glibc)
            let start = Glibc.open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        #else
            let start = Darwin.open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        #endif
        guard start >= 0, rest.utf8.contains(UInt8(ascii: "/")) else { return (start, errno) }
        let folder = waybill_open_way(start, Path.parent(of: rest))
        let error = errno
        close(start)
        return (folder, error)
    }

    deinit {
        if self.folder >= 0 { close(self.folder) }
    }

    /// A folder of the data directory, and the path from there; `nil` for paths that are not below one.
    private static func split(_ path: String, below data: String) -> (base: String, rest: String)? {
        guard !data.isEmpty, path.hasPrefix(data) else { return nil }
        let name = path.utf8.index(path.startIndex, offsetBy: data.utf8.count)
        guard let slash = path.utf8[name...].firstIndex(of: UInt8(ascii: "/")), slash != name else { return nil }
        let rest = path[path.utf8.index(after: slash)...].drop { $0 == "/" }
        return rest.isEmpty ? nil : (String(path[..<slash]), String(rest))
    }
}
