import Testing
import WaybillSystem

/// Which mounts may hang, as `mountinfo` tells them.
struct MountTableTests {
    private func table(_ lines: String...) -> MountTable {
        MountTable(Array(lines.map { $0 + "\n" }.joined().utf8))
    }

    @Test(arguments: ["nfs", "nfs4", "cifs", "fuse", "fuse.sshfs", "9p", "virtiofs", "ceph", "autofs"])
    func `a server or a program answers for these`(_ type: String) {
        let table = self.table("36 25 0:42 / /mnt/logs rw,noatime shared:7 master:1 - \(type) server:/logs rw,hard")
        #expect(table["/mnt/logs"] == MountTable.Mount(number: 36, path: "/mnt/logs"))
        #expect(table["/mnt"] == nil)
        #expect(table["/mnt/logs/web"] == nil)
    }

    @Test(arguments: ["ext4", "tmpfs", "overlay", "fusectl", "xfs", "proc"])
    func `the kernel answers for these`(_ type: String) {
        #expect(self.table("36 25 0:42 / /mnt/logs rw - \(type) x rw").isEmpty)
    }

    @Test
    func `fields between the options and the type may be missing, and a path has spaces`() {
        let table = self.table(#"36 25 0:42 / /mnt/my\040logs\134 rw - nfs4 server:/ rw"#)
        #expect(table[#"/mnt/my logs\"#]?.number == 36)
    }

    @Test
    func `the last mount at a path hides the others`() {
        let (far, near) = ("36 25 0:42 / /mnt rw - nfs s:/ rw", "37 36 8:1 / /mnt rw - ext4 /dev/sda1 rw")
        #expect(self.table(far, near).isEmpty)
        #expect(self.table(near, far)["/mnt"]?.number == 36)
    }

    @Test
    func `the root and what the kernel shows are no such mounts`() {
        #expect(
            self.table(
                "25 1 0:42 / / rw - nfs s:/ rw", "26 25 0:43 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw",
                "27 25 0:44 / /sys/fs/fuse/x rw - fuse x rw", "28 25 0:45 / /dev/x rw - fuse x rw"
            ).isEmpty)
        #expect(!self.table("25 1 0:42 / /process rw - nfs s:/ rw").isEmpty)
    }

    @Test
    func `lines that are no mounts are passed over`() {
        let table = self.table(
            "", "36", "x 25 0:42 / /a rw - nfs s:/ rw", "36 25 0:42 / /b rw -", "37 2 0:4 / /c rw - 9p x rw")
        #expect(table["/a"] == nil && table["/b"] == nil && table["/c"] != nil)
    }

    @Test
    func `a mount that was made again is another one`() {
        let former = MountTable.Mount(number: 36, path: "/mnt")
        #expect(self.table("36 25 0:42 / /mnt rw - nfs s:/ rw").contains(former))
        #expect(!self.table("37 25 0:42 / /mnt rw - nfs s:/ rw").contains(former))
    }
}
