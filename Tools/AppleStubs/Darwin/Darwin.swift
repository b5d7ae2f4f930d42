// What the client uses of Darwin for the protection of a spool's folder, as Swift sees it.

public let O_RDONLY: Int32 = 0
public let O_CLOEXEC: Int32 = 0x0100_0000
public let F_SETPROTECTIONCLASS: Int32 = 64

public func open(_ path: UnsafePointer<CChar>, _ oflag: Int32) -> Int32 { 0 }
@discardableResult public func close(_ fd: Int32) -> Int32 { 0 }
public func fcntl(_ fd: Int32, _ cmd: Int32, _ value: Int32) -> Int32 { 0 }
public func fsetxattr(
    _ fd: Int32, _ name: UnsafePointer<CChar>!, _ value: UnsafeRawPointer!, _ size: Int, _ position: UInt32,
    _ options: Int32
) -> Int32 { 0 }
