// What Swift cannot declare: a structure and a function of the same name.

struct statvfs {
    unsigned long f_bsize;
    unsigned long f_frsize;
    unsigned int f_blocks;
    unsigned int f_bfree;
    unsigned int f_bavail;
};

int statvfs(const char *path, struct statvfs *status);
