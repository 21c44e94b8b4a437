"""What builds were like: written after a build that had something to do, never by one that had not."""
