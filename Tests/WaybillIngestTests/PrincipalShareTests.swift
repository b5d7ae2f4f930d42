import Testing
import WaybillReceiver

@testable import WaybillDoor

@Suite struct PrincipalShareTests {
    private static func door() -> Principal {
        var door = Principal(name: "door")
        door.mayForward = true
        return door
    }

    @Test func `the only principal whose clients come through the door may have everything`() {
        #expect(PrincipalShare(among: []).of(8) == 8)
        #expect(PrincipalShare(among: [Principal(name: "app"), Self.door()]).of(8) == 8)
    }

    @Test func `one of several has three quarters, and one at least`() {
        let share = PrincipalShare(among: [Principal(name: "app"), Self.door(), Principal(name: "web")])
        #expect([1024, 8, 2, 1].map(share.of) == [768, 6, 1, 1])
    }
}
