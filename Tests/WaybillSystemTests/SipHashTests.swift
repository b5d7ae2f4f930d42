import Testing
import WaybillSystem

/// Vectors of the reference implementation: key 00 01 … 0f, messages 00 01 ….
@Test(arguments: [
    (0, UInt64(0x726f_db47_dd0e_0e31)), (1, 0x74f8_39c5_93dc_67fd), (7, 0xab02_00f5_8b01_d137),
    (8, 0x93f5_f579_9a93_2462), (15, 0xa129_ca61_49be_45e5), (63, 0x958a_324c_eb06_4572),
])
func `SipHash-2-4 is as published`(byteCount: Int, expected: UInt64) {
    let message = (0..<byteCount).map { UInt8($0) }
    #expect(message.withUnsafeBytes { SipHash(key: Array(0..<16)).hash(of: $0) } == expected)
}
