internal import CWaybillTexts

/// What the door itself serves.
enum DoorScript {
    /// What a page under `Cross-Origin-Embedder-Policy` asks of what it loads from elsewhere, and that a cache may not give
    /// the answer for one origin to another.
    static let forAnyPage = [("Cross-Origin-Resource-Policy", "cross-origin"), ("Vary", "Origin")]
    /// A transparent GIF of one pixel.
    static let pixel: [UInt8] = [
        0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x21, 0xF9, 4, 1, 0, 0, 0, 0,
        0x2C, 0,
        0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0, 0x3B,
    ]
    /// PostHog's answer to who asks for feature flags.
    static let noFlags = Array(#"{"flags":{},"featureFlags":{},"errorsWhileComputingFlags":false}"#.utf8)
    /// `waybill.js`, as it was when the program was built.
    static let bytes: [UInt8] = {
        let file = waybill_door_script()
        return Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
    }()
}
