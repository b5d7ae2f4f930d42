// What the client uses of Darwin, as Swift sees it: the signatures and sizes of Apple's headers and of their overlay.
@_exported public import CDarwin

public typealias mode_t = UInt16
public typealias off_t = Int64
public typealias dev_t = Int32
public typealias ino_t = UInt64
public typealias nlink_t = UInt16
public typealias uid_t = UInt32
public typealias gid_t = UInt32
public typealias time_t = Int
public typealias nfds_t = UInt32
public typealias rlim_t = UInt64
public typealias size_t = Int

// MARK: Errors

public var errno: Int32 {
    get { 0 }
    set {}
}
public var EPERM: Int32 { 1 }
public var ECANCELED: Int32 { 89 }
public var ENOENT: Int32 { 2 }
public var EINTR: Int32 { 4 }
public var EIO: Int32 { 5 }
public var EACCES: Int32 { 13 }
public var EBUSY: Int32 { 16 }
public var EEXIST: Int32 { 17 }
public var ENOTDIR: Int32 { 20 }
public var EISDIR: Int32 { 21 }
public var ENXIO: Int32 { 6 }
public var EINVAL: Int32 { 22 }
public var ENFILE: Int32 { 23 }
public var EMFILE: Int32 { 24 }
public var ENOSPC: Int32 { 28 }
public var EROFS: Int32 { 30 }
public var ERANGE: Int32 { 34 }
public var EAGAIN: Int32 { 35 }
public var EWOULDBLOCK: Int32 { 35 }
public var ENOTSUP: Int32 { 45 }
public var ETIMEDOUT: Int32 { 60 }
public var ELOOP: Int32 { 62 }
public var EILSEQ: Int32 { 92 }
public var EBADMSG: Int32 { 94 }
public var ENOTEMPTY: Int32 { 66 }
public var EDQUOT: Int32 { 69 }

public var _SC_CLK_TCK: Int32 { 3 }
public func sysconf(_ name: Int32) -> Int { 0 }
public func strerror(_ number: Int32) -> UnsafeMutablePointer<CChar>! { nil }

// MARK: Files

public var O_RDONLY: Int32 { 0 }
public var O_RDWR: Int32 { 2 }
public var O_NONBLOCK: Int32 { 4 }
public var O_APPEND: Int32 { 8 }
public var O_NOFOLLOW: Int32 { 0x100 }
public var O_CREAT: Int32 { 0x200 }
public var O_TRUNC: Int32 { 0x400 }
public var O_EXCL: Int32 { 0x800 }
public var O_DIRECTORY: Int32 { 0x10_0000 }
public var O_CLOEXEC: Int32 { 0x0100_0000 }
public var AT_FDCWD: Int32 { -2 }
public var AT_SYMLINK_NOFOLLOW: Int32 { 0x20 }
public var AT_REMOVEDIR: Int32 { 0x80 }
public var F_SETFD: Int32 { 2 }
public var F_GETFL: Int32 { 3 }
public var F_SETFL: Int32 { 4 }
public var F_FULLFSYNC: Int32 { 51 }
public var F_SETPROTECTIONCLASS: Int32 { 64 }
public var FD_CLOEXEC: Int32 { 1 }
public var LOCK_SH: Int32 { 1 }
public var LOCK_EX: Int32 { 2 }
public var LOCK_NB: Int32 { 4 }
public var LOCK_UN: Int32 { 8 }
public var S_IFMT: mode_t { 0o170000 }
public var S_IFDIR: mode_t { 0o040000 }
public var S_IFREG: mode_t { 0o100000 }
public var S_IFLNK: mode_t { 0o120000 }
public var S_ISGID: mode_t { 0o002000 }

public struct timespec {
    public var tv_sec: time_t
    public var tv_nsec: Int
    public init() { fatalError() }
    public init(tv_sec: time_t, tv_nsec: Int) { fatalError() }
}

public struct stat {
    public var st_dev: dev_t
    public var st_mode: mode_t
    public var st_nlink: nlink_t
    public var st_ino: ino_t
    public var st_uid: uid_t
    public var st_gid: gid_t
    public var st_mtimespec: timespec
    public var st_ctimespec: timespec
    public var st_birthtimespec: timespec
    public var st_size: off_t
    public init() { fatalError() }
}

public struct iovec {
    public var iov_base: UnsafeMutableRawPointer!
    public var iov_len: Int
    public init() { fatalError() }
    public init(iov_base: UnsafeMutableRawPointer!, iov_len: Int) { fatalError() }
}

public struct DIR {}
public struct dirent {
    public var d_ino: UInt64
    public var d_type: UInt8
    public var d_name: (CChar, CChar, CChar, CChar)
}

public func realpath(_ path: UnsafePointer<CChar>, _ buffer: UnsafeMutablePointer<CChar>!) -> UnsafeMutablePointer<CChar>! {
    nil
}
public func free(_ pointer: UnsafeMutableRawPointer!) {}
public func open(_ path: UnsafePointer<CChar>, _ oflag: Int32) -> Int32 { 0 }
public func open(_ path: UnsafePointer<CChar>, _ oflag: Int32, _ mode: mode_t) -> Int32 { 0 }
public func openat(_ fd: Int32, _ path: UnsafePointer<CChar>, _ oflag: Int32) -> Int32 { 0 }
public func openat(_ fd: Int32, _ path: UnsafePointer<CChar>, _ oflag: Int32, _ mode: mode_t) -> Int32 { 0 }
@discardableResult public func close(_ fd: Int32) -> Int32 { 0 }
public func read(_ fd: Int32, _ buffer: UnsafeMutableRawPointer!, _ count: Int) -> Int { 0 }
public func pread(_ fd: Int32, _ buffer: UnsafeMutableRawPointer!, _ count: Int, _ offset: off_t) -> Int { 0 }
public func write(_ fd: Int32, _ buffer: UnsafeRawPointer!, _ count: Int) -> Int { 0 }
public func writev(_ fd: Int32, _ vector: UnsafePointer<iovec>!, _ count: Int32) -> Int { 0 }
@discardableResult public func ftruncate(_ fd: Int32, _ length: off_t) -> Int32 { 0 }
@discardableResult public func fsync(_ fd: Int32) -> Int32 { 0 }
public func fcntl(_ fd: Int32, _ cmd: Int32) -> Int32 { 0 }
public func fcntl(_ fd: Int32, _ cmd: Int32, _ value: Int32) -> Int32 { 0 }
public func fcntl(_ fd: Int32, _ cmd: Int32, _ pointer: UnsafeMutableRawPointer) -> Int32 { 0 }
@discardableResult public func flock(_ fd: Int32, _ operation: Int32) -> Int32 { 0 }
public func fstat(_ fd: Int32, _ status: UnsafeMutablePointer<stat>!) -> Int32 { 0 }
public func fstatat(
    _ fd: Int32, _ path: UnsafePointer<CChar>!, _ status: UnsafeMutablePointer<stat>!, _ flags: Int32
) -> Int32 { 0 }
@discardableResult public func chmod(_ path: UnsafePointer<CChar>, _ mode: mode_t) -> Int32 { 0 }
@discardableResult public func fchmod(_ fd: Int32, _ mode: mode_t) -> Int32 { 0 }
@discardableResult public func fchown(_ fd: Int32, _ user: uid_t, _ group: gid_t) -> Int32 { 0 }
@discardableResult public func chown(_ path: UnsafePointer<CChar>, _ user: uid_t, _ group: gid_t) -> Int32 { 0 }
public typealias socklen_t = UInt32
public var AF_INET: Int32 { 2 }
public var AF_INET6: Int32 { 30 }
public var INET6_ADDRSTRLEN: Int32 { 46 }
public func inet_pton(_ family: Int32, _ text: UnsafePointer<CChar>, _ bytes: UnsafeMutableRawPointer) -> Int32 { 0 }
public func inet_ntop(
    _ family: Int32, _ bytes: UnsafeRawPointer, _ text: UnsafeMutablePointer<CChar>, _ count: socklen_t
) -> UnsafePointer<CChar>? { nil }
@discardableResult public func mkdirat(_ fd: Int32, _ path: UnsafePointer<CChar>!, _ mode: mode_t) -> Int32 { 0 }
@discardableResult public func unlinkat(_ fd: Int32, _ path: UnsafePointer<CChar>!, _ flags: Int32) -> Int32 { 0 }
@discardableResult public func renameat(
    _ fd: Int32, _ from: UnsafePointer<CChar>!, _ other: Int32, _ to: UnsafePointer<CChar>!
) -> Int32 { 0 }
public func fsetxattr(
    _ fd: Int32, _ name: UnsafePointer<CChar>!, _ value: UnsafeRawPointer!, _ size: Int, _ position: UInt32,
    _ options: Int32
) -> Int32 { 0 }
public func opendir(_ path: UnsafePointer<CChar>!) -> UnsafeMutablePointer<DIR>! { nil }
public func fdopendir(_ fd: Int32) -> UnsafeMutablePointer<DIR>! { nil }
public func readdir(_ folder: UnsafeMutablePointer<DIR>!) -> UnsafeMutablePointer<dirent>! { nil }
@discardableResult public func closedir(_ folder: UnsafeMutablePointer<DIR>!) -> Int32 { 0 }

// MARK: Waiting

public struct pollfd {
    public var fd: Int32
    public var events: Int16
    public var revents: Int16
    public init() { fatalError() }
    public init(fd: Int32, events: Int16, revents: Int16) { fatalError() }
}

public var POLLIN: Int32 { 1 }
public func poll(_ files: UnsafeMutablePointer<pollfd>!, _ count: nfds_t, _ timeout: Int32) -> Int32 { 0 }
public func pipe(_ ends: UnsafeMutablePointer<Int32>!) -> Int32 { 0 }
@discardableResult public func nanosleep(
    _ time: UnsafePointer<timespec>!, _ rest: UnsafeMutablePointer<timespec>!
) -> Int32 { 0 }

// MARK: Time

public struct clockid_t: RawRepresentable, Equatable, Sendable {
    public var rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}

public var CLOCK_REALTIME: clockid_t { clockid_t(rawValue: 0) }
public var CLOCK_MONOTONIC: clockid_t { clockid_t(rawValue: 6) }
public var CLOCK_PROCESS_CPUTIME_ID: clockid_t { clockid_t(rawValue: 12) }
@discardableResult
public func clock_gettime(_ clock: clockid_t, _ time: UnsafeMutablePointer<timespec>!) -> Int32 { 0 }

public struct tm {
    public var tm_gmtoff: Int
    public init() { fatalError() }
}
public func localtime_r(
    _ time: UnsafePointer<time_t>!, _ parts: UnsafeMutablePointer<tm>!
) -> UnsafeMutablePointer<tm>! { nil }

// MARK: Threads

public struct pthread_mutex_t {
    public init() { fatalError() }
}
public struct pthread_mutexattr_t {
    public init() { fatalError() }
}
public struct pthread_cond_t {
    public init() { fatalError() }
}
public struct pthread_condattr_t {
    public init() { fatalError() }
}
public struct pthread_attr_t {
    public init() { fatalError() }
}
public struct _opaque_pthread_t {}
public typealias pthread_t = UnsafeMutablePointer<_opaque_pthread_t>

@discardableResult public func pthread_mutex_init(
    _ mutex: UnsafeMutablePointer<pthread_mutex_t>, _ attributes: UnsafePointer<pthread_mutexattr_t>?
) -> Int32 { 0 }
@discardableResult public func pthread_mutex_destroy(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 { 0 }
@discardableResult public func pthread_mutex_lock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 { 0 }
@discardableResult public func pthread_mutex_unlock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 { 0 }
@discardableResult public func pthread_cond_init(
    _ condition: UnsafeMutablePointer<pthread_cond_t>, _ attributes: UnsafePointer<pthread_condattr_t>?
) -> Int32 { 0 }
@discardableResult public func pthread_cond_destroy(_ condition: UnsafeMutablePointer<pthread_cond_t>) -> Int32 { 0 }
@discardableResult public func pthread_cond_broadcast(_ condition: UnsafeMutablePointer<pthread_cond_t>) -> Int32 { 0 }
@discardableResult public func pthread_cond_wait(
    _ condition: UnsafeMutablePointer<pthread_cond_t>, _ mutex: UnsafeMutablePointer<pthread_mutex_t>
) -> Int32 { 0 }
@discardableResult public func pthread_cond_timedwait_relative_np(
    _ condition: UnsafeMutablePointer<pthread_cond_t>, _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
    _ time: UnsafePointer<timespec>?
) -> Int32 { 0 }
public var PTHREAD_CREATE_DETACHED: Int32 { 2 }
@discardableResult
public func pthread_attr_init(_ attributes: UnsafeMutablePointer<pthread_attr_t>) -> Int32 { 0 }
@discardableResult
public func pthread_attr_destroy(_ attributes: UnsafeMutablePointer<pthread_attr_t>) -> Int32 { 0 }
@discardableResult
public func pthread_attr_setdetachstate(_ attributes: UnsafeMutablePointer<pthread_attr_t>, _ state: Int32) -> Int32 {
    0
}
public func pthread_create(
    _ thread: UnsafeMutablePointer<pthread_t?>, _ attributes: UnsafePointer<pthread_attr_t>?,
    _ start: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 { 0 }

public struct qos_class_t: RawRepresentable, Equatable, Sendable {
    public var rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}
public var QOS_CLASS_UTILITY: qos_class_t { qos_class_t(rawValue: 0x11) }
@discardableResult
public func pthread_set_qos_class_self_np(_ quality: qos_class_t, _ relative: Int32) -> Int32 { 0 }

// MARK: The process and the machine

public struct utsname {
    public var sysname: (CChar, CChar)
    public var release: (CChar, CChar)
    public var machine: (CChar, CChar)
    public init() { fatalError() }
}
public func uname(_ name: UnsafeMutablePointer<utsname>!) -> Int32 { 0 }
public func sysctlbyname(
    _ name: UnsafePointer<CChar>!, _ old: UnsafeMutableRawPointer!, _ oldLength: UnsafeMutablePointer<Int>!,
    _ new: UnsafeMutableRawPointer!, _ newLength: Int
) -> Int32 { 0 }
public func getpid() -> Int32 { 0 }
public func gethostname(_ name: UnsafeMutablePointer<CChar>!, _ count: Int) -> Int32 { 0 }
public func getenv(_ name: UnsafePointer<CChar>!) -> UnsafeMutablePointer<CChar>! { nil }
public func getpagesize() -> Int32 { 0 }
public func memchr(_ bytes: UnsafeRawPointer!, _ byte: Int32, _ count: Int) -> UnsafeMutableRawPointer! { nil }

public struct rlimit {
    public var rlim_cur: rlim_t
    public var rlim_max: rlim_t
    public init() { fatalError() }
}
public var RLIMIT_NOFILE: Int32 { 8 }
public func getrlimit(_ resource: Int32, _ limit: UnsafeMutablePointer<rlimit>!) -> Int32 { 0 }
@discardableResult public func setrlimit(_ resource: Int32, _ limit: UnsafePointer<rlimit>!) -> Int32 { 0 }

public struct group {
    public var gr_name: UnsafeMutablePointer<CChar>!
    public var gr_gid: gid_t
    public init() { fatalError() }
}
public func getgrnam_r(
    _ name: UnsafePointer<CChar>!, _ entry: UnsafeMutablePointer<group>!, _ buffer: UnsafeMutablePointer<CChar>!,
    _ size: Int, _ result: UnsafeMutablePointer<UnsafeMutablePointer<group>?>!
) -> Int32 { 0 }
