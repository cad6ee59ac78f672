#ifndef CLI_FILE_H
#define CLI_FILE_H

/* Writes the text to the file of this name and returns 0, or errno.
 *
 * A regular file is replaced when all of the text is written, so that a reader always finds a whole
 * one; a new file appears in the same way. Behind a symbolic link this is done where the link
 * leads, and the link stays. Anything else, such as a device or a pipe, is written into. */
int cli_file_write(const char *path, const char *text);

#endif
