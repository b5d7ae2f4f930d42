// What the client uses of CoreFoundation for the user's languages, as Swift sees it.

public final class CFArray {}
public final class CFString {}
public typealias CFIndex = Int
public typealias CFStringEncoding = UInt32

/// Apple's has more cases.
public enum CFStringBuiltInEncodings: CFStringEncoding, @unchecked Sendable {
    case UTF8 = 0x0800_0100
}

public func CFLocaleCopyPreferredLanguages() -> CFArray! { nil }
public func CFArrayGetCount(_ theArray: CFArray!) -> CFIndex { 0 }
public func CFArrayGetValueAtIndex(_ theArray: CFArray!, _ idx: CFIndex) -> UnsafeRawPointer! { nil }
public func CFStringGetCString(
    _ theString: CFString!, _ buffer: UnsafeMutablePointer<CChar>!, _ bufferSize: CFIndex,
    _ encoding: CFStringEncoding
) -> Bool { false }
