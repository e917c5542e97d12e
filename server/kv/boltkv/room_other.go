//go:build !linux && !darwin

package boltkv

// freeBytes does not know here.
func freeBytes(string) (n uint64, ok bool) { return 0, false }
